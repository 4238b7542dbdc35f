/**
 * What the console API does with a whole file: a configuration file or a price list. All work that grows with the file
 * or with the installation is here, so that a thread can do it (`file-thread.ts`).
 */

import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { listChanges, listedModelFields, parsePriceList } from "../../config/parse/price-list-file.ts";
import {
  applyLatest,
  type ChangeAuthor,
  type PlannedChanges,
  type PlanResult,
  planChanges,
} from "../../config/plan/apply.ts";
import type { PlanPermit } from "../../config/plan/plan-scope.ts";
import { formatProblem } from "../../config/state/problem.ts";
import { ApiError, paramError } from "../../errors.ts";
import { computeOldestDate, listOldPrices } from "../../policy/old-prices.ts";
import { unpricedPublications } from "../../policy/publication.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import { transaction } from "../../store/engine/db.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { readPriceList, writePriceList } from "../../store/policy/price-list.ts";
import { changeObject, planName, problemObjects } from "./config-view.ts";

interface ConfigFile {
  readonly text: string;
  readonly prune: boolean;
  /** Omitted: everything may change. */
  readonly permit?: PlanPermit;
}

interface PlanOperation extends ConfigFile {
  readonly kind: "plan";
}

interface ApplyOperation extends ConfigFile {
  readonly kind: "apply";
  /** The name of the plan that was previewed. */
  readonly plan: string;
}

interface PriceOperation {
  readonly kind: "prices";
  readonly text: string;
  readonly isDryRun: boolean;
}

export type FileOperation = PlanOperation | ApplyOperation | PriceOperation;

/** Returns the response of the operation. */
export function runFileOperation(
  installation: Installation,
  operation: FileOperation,
  author: ChangeAuthor,
): Promise<object> {
  switch (operation.kind) {
    case "plan":
      return previewFile(installation, operation);
    case "apply":
      return applyFile(installation, operation, author);
    case "prices":
      return updatePrices(installation, operation, author);
  }
}

async function previewFile(installation: Installation, file: PlanOperation): Promise<object> {
  const result = await planFile(installation, file);
  if (!result.ok) return { problems: problemObjects(result.problems), changes: [], notes: [], plan: null };
  const { changes, notes } = result.plan;
  const plan = changes.length === 0 ? null : planName(result.plan);
  return { problems: [], changes: changes.map(changeObject), notes, plan };
}

async function applyFile(
  installation: Installation,
  file: ApplyOperation,
  author: ChangeAuthor,
): Promise<object> {
  const { changes, shown } = await applyLatest(installation, author, async (db) => {
    const result = await planFile({ ...installation, db }, file);
    if (result.ok && planName(result.plan) === file.plan) return result.plan;
    throw new ApiError(
      "conflict",
      "The installation was changed after the preview. Preview the changes again.",
    );
  });
  return { changes: changes.map(changeObject), keys: shown.map(describeKey) };
}

function describeKey({ name, user, group, secret }: PlannedChanges["shown"][number]) {
  return { name, user, group, secret };
}

async function planFile(
  installation: Installation,
  { text, prune, permit }: ConfigFile,
): Promise<PlanResult> {
  const valuesMax = limits.apiFileValuesMax;
  // The environment contains the secrets of the process: a text from a browser must not read them.
  const source = { text, fileName: "gateway.yaml", environment: {}, valuesMax };
  const scope = permit === undefined ? {} : { permit };
  const result = await planChanges(installation, source, { prune, fromConsole: true, ...scope });
  if (result.ok || !result.isOutOfScope) return result;
  throw paramError(
    result.problems[0]?.field ?? null,
    "not_in_scope",
    result.problems.slice(0, limits.apiProblemsMax).map(formatProblem).join("\n"),
  );
}

async function updatePrices(
  { db, clock }: Installation,
  { text, isDryRun }: PriceOperation,
  author: ChangeAuthor,
): Promise<object> {
  const source = { fileName: "prices", valuesMax: limits.apiFileValuesMax };
  const parsed = parsePriceList(text, source, await readPriceList(db));
  if (!parsed.ok) {
    const problems = problemObjects(parsed.problems);
    return { problems, changes: [], applied: false, unpriced: [], outdated: [] };
  }
  const { list } = parsed;
  const changes = await transaction(db, async (tx) => {
    const found = listChanges(await readPriceList(tx), list);
    if (found.length === 0 || isDryRun) return found;
    await writePriceList(tx, list);
    const entry = { atMs: clock.nowMs(), action: "price_list.change", target: "price list" };
    await appendChange(tx, { ...author, ...entry, changes: found.flatMap(listedModelFields) });
    return found;
  });
  const records = { ...(await readPolicy(db)), priceList: list };
  const oldestDate = computeOldestDate(clock.nowMs(), limits.priceAgeDaysMax);
  return {
    problems: [],
    changes: changes.map(changeObject),
    applied: !isDryRun && changes.length > 0,
    unpriced: unpricedPublications(records),
    outdated: listOldPrices(records, oldestDate),
  };
}
