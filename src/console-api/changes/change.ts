/**
 * Applies a policy change from the console, in the same way as a file with that content. When the promise
 * resolves, the change is in the database and the audit log, and it is in force.
 */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import { applyLatest, type PlannedChanges, type PlanResult, planDocument } from "../../config/plan/apply.ts";
import { ConcurrentChangeError } from "../../config/plan/concurrent-change.ts";
import type { Removals } from "../../config/plan/plan-removals.ts";
import type { GatewayDocument } from "../../config/schema/schema.ts";
import type { Problem } from "../../config/state/problem.ts";
import { type ApiError, paramError } from "../../errors.ts";
import { readRevisions } from "../../store/engine/revisions.ts";
import type { PolicyContext, StoreContext } from "../context.ts";
import type { Actor, ApiCaller } from "../http/route.ts";
import { changeAuthor } from "./audit-log-entry.ts";

/** The caller, as a route knows it. */
export interface ConsoleAuthor<Who extends ApiCaller = Actor> {
  readonly actor: Who;
  readonly clientAddress: string;
}

/** What planning uses. Its database may be a transaction. */
type PlanContext = StoreContext;

/**
 * A document, or a function that builds one from data it reads with the passed context. With a function,
 * concurrent changes are not overwritten.
 */
type DocumentSource = GatewayDocument | ((context: PlanContext) => Promise<GatewayDocument>);

/** In file shape: entries in the document are created or changed, all others are kept. */
export async function changePolicy(
  context: PolicyContext,
  caller: ConsoleAuthor,
  source: DocumentSource,
  removals: Removals = {},
): Promise<PlannedChanges> {
  const { installation, gateway } = context;
  const applied = await applyLatest(installation, changeAuthor(caller), async (db) => {
    const planContext = { installation: { ...installation, db } };
    const since = await readRevisions(planContext.installation.db);
    const document = typeof source === "function" ? await source(planContext) : source;
    const result = await planDocument(planContext.installation, document, {
      removals,
      fromConsole: true,
      since,
    });
    const plan = requirePlan(result, findPrefix(document));
    // The state was read after the document: an empty plan may be the result of a concurrent change.
    const isOvertaken = async () =>
      (await readRevisions(planContext.installation.db)).policy !== since.policy;
    if (plan.steps.length === 0 && (await isOvertaken())) throw new ConcurrentChangeError();
    return plan;
  });
  await gateway.policy.refresh();
  return applied;
}

function requirePlan(result: PlanResult, prefix: string): PlannedChanges {
  if (result.ok) return result.plan;
  throw problemsError(result.problems, prefix);
}

/** Reports all problems together; `param` is the first field, for the form that sent it. */
export function problemsError(problems: readonly Problem[], prefix: string): ApiError {
  const problemList = problemObjects(problems, prefix);
  const lines = problemList.map(({ field, message }) => (field === "" ? message : `${field}: ${message}`));
  return paramError(problemList[0]?.field || null, "invalid_value", lines.join("\n"));
}

export const problemsResponse = z.array(z.object({ field: z.string(), message: z.string() }));

/** Names the fields relative to `prefix`. */
export function problemObjects(
  problems: readonly Problem[],
  prefix: string,
): { field: string; message: string }[] {
  return problems
    .slice(0, limits.apiProblemsMax)
    .map(({ field, message }) => ({ field: stripPrefix(field, prefix), message }));
}

/** A document with one entry is the form of that entry: its fields are named relative to it. */
function findPrefix(document: GatewayDocument): string {
  const paths = Object.entries(document).flatMap(([section, entries]) =>
    Array.isArray(entries) ? entries.map((_, i) => `${section}[${i}]`) : [section],
  );
  return paths.length === 1 ? (paths[0] ?? "") : "";
}

function stripPrefix(field: string, prefix: string): string {
  if (prefix === "" || !field.startsWith(prefix)) return field;
  return field.slice(prefix.length).replace(/^\./, "");
}
