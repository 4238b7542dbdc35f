/**
 * Applies a policy change from the console, in the same way as a file with that content. When the promise
 * resolves, the change is in the database and the change log, and it is in force.
 */

import { z } from "zod";
import {
  applyAlone,
  applyChanges,
  ChangedMeanwhile,
  type PlannedChanges,
  type PlanResult,
  planDocument,
} from "../../config/plan/apply.ts";
import type { Removals } from "../../config/plan/plan-removals.ts";
import type { GatewayDocument } from "../../config/schema/schema.ts";
import type { Problem } from "../../config/state/problem.ts";
import { ApiError } from "../../errors.ts";
import type { Db } from "../../store/engine/db.ts";
import { readRevisions } from "../../store/engine/revisions.ts";
import type { ConsoleContext } from "../context.ts";
import type { Actor } from "../http/route.ts";
import { auditActor } from "./change-log-entry.ts";

/** The caller, as a route knows it. */
export interface ConsoleAuthor {
  readonly actor: Actor;
  readonly clientAddress: string;
}

/**
 * A document, or a function that builds one from data it reads with the passed context. With a function,
 * concurrent changes are not overwritten.
 */
type Wanted = GatewayDocument | ((control: ConsoleContext) => Promise<GatewayDocument>);

/** In file shape: entries in the document are created or changed, all others are kept. */
export function changePolicy(
  control: ConsoleContext,
  author: ConsoleAuthor,
  wanted: Wanted,
  removals: Removals = {},
): Promise<PlannedChanges> {
  return changeAudited(control, author, async (reading) => {
    const since = await readRevisions(reading.installation.db);
    const document = typeof wanted === "function" ? await wanted(reading) : wanted;
    const result = await planDocument(reading.installation, document, { removals, fromConsole: true, since });
    const plan = planOf(result, prefixOf(document));
    // The state was read after the document: an empty plan may be the result of a concurrent change.
    const isOvertaken = async () => (await readRevisions(reading.installation.db)).policy !== since.policy;
    if (plan.steps.length === 0 && (await isOvertaken())) throw new ChangedMeanwhile();
    return plan;
  });
}

/**
 * Writes the plan with its change log entries, and waits until the running gateway uses it. Planning happens
 * without a lock. Only if a concurrent change came first, it is repeated under the lock.
 */
export async function changeAudited(
  control: ConsoleContext,
  { actor, clientAddress }: ConsoleAuthor,
  plan: (reading: ConsoleContext) => Promise<PlannedChanges>,
): Promise<PlannedChanges> {
  const { installation, gateway } = control;
  const author = { actor: auditActor(actor), address: clientAddress };
  const alone = (db: Db) => plan({ ...control, installation: { ...installation, db } });
  const beside = async () => {
    const made = await plan(control);
    await applyChanges(installation, made, author);
    return made;
  };
  const written = await beside().catch((error: unknown) => {
    if (error instanceof ChangedMeanwhile) return applyAlone(installation, alone, author);
    throw error;
  });
  await gateway.policy.refresh();
  return written;
}

function planOf(result: PlanResult, prefix: string): PlannedChanges {
  if (result.ok) return result.plan;
  throw problemsError(result.problems, prefix);
}

/** Reports all problems together; `param` is the first field, for the form that sent it. */
export function problemsError(problems: readonly Problem[], prefix: string): ApiError {
  const told = problemsOf(problems, prefix);
  const lines = told.map(({ field, message }) => (field === "" ? message : `${field}: ${message}`));
  return new ApiError("invalid_value", lines.join("\n"), { param: told[0]?.field || null });
}

export const problemsAnswer = z.array(z.object({ field: z.string(), message: z.string() }));

/** Names the fields relative to `prefix`. */
export function problemsOf(
  problems: readonly Problem[],
  prefix: string,
): { field: string; message: string }[] {
  return problems.map(({ field, message }) => ({ field: within(field, prefix), message }));
}

/** A document with one entry is the form of that entry: its fields are named relative to it. */
function prefixOf(document: GatewayDocument): string {
  const named = Object.entries(document).flatMap(([section, entries]) =>
    Array.isArray(entries) ? entries.map((_, i) => `${section}[${i}]`) : [section],
  );
  return named.length === 1 ? (named[0] ?? "") : "";
}

function within(field: string, prefix: string): string {
  if (prefix === "" || !field.startsWith(prefix)) return field;
  return field.slice(prefix.length).replace(/^\./, "");
}
