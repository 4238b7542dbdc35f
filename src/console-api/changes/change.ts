/**
 * A change of policy from the console: the same operation as applying a file that says it. It is in the audit log when
 * it is in the store, and in force when this resolves.
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

/** Who asked, as a route knows it. */
export interface ConsoleAuthor {
  readonly actor: Actor;
  readonly clientAddress: string;
}

/**
 * A document, or what makes one from what it reads by the control it is given: then nothing that somebody else wrote in
 * between is undone.
 */
type Wanted = GatewayDocument | ((control: ConsoleContext) => Promise<GatewayDocument>);

/** In the file's own shape: what is named is created or changed, what is not named is left alone. */
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
    // The state was read after the document: what is so already may be what somebody else did in between.
    const isOvertaken = async () => (await readRevisions(reading.installation.db)).policy !== since.policy;
    if (plan.steps.length === 0 && (await isOvertaken())) throw new ChangedMeanwhile();
    return plan;
  });
}

/**
 * Writes the plan with its entries of the audit log, and waits until the running gateway follows it. Planning is done
 * beside everybody else's work; only where somebody else was quicker it is done again, and then alone.
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

/** Everything that is wrong at once; `param` is the first field, for the form that sent it. */
export function problemsError(problems: readonly Problem[], prefix: string): ApiError {
  const told = problemsOf(problems, prefix);
  const lines = told.map(({ field, message }) => (field === "" ? message : `${field}: ${message}`));
  return new ApiError("invalid_value", lines.join("\n"), { param: told[0]?.field || null });
}

export const problemsAnswer = z.array(z.object({ field: z.string(), message: z.string() }));

/** With their fields named from `prefix` on. */
export function problemsOf(
  problems: readonly Problem[],
  prefix: string,
): { field: string; message: string }[] {
  return problems.map(({ field, message }) => ({ field: within(field, prefix), message }));
}

/** A document of one thing is the form of that thing: its fields are named from there. */
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
