import { transaction } from "../store/db.ts";
import { readOpenings } from "../store/entries.ts";
import { bumpPolicyRevision, readRevisions } from "../store/revisions.ts";
import { type KnownNames, NOTHING_KNOWN } from "./check.ts";
import { parseGatewayFile } from "./file.ts";
import type { Installation } from "./installation.ts";
import { openingNotes } from "./opening-balance.ts";
import { keptForTheirMoney, type PlanOptions, planSteps } from "./plan.ts";
import type { ShownKey } from "./plan-keys.ts";
import type { Problem } from "./problem.ts";
import type { GatewayFile } from "./schema.ts";
import { type Change, readState, type Secrets, type State, type Step } from "./step.ts";

/** The present state is brought to what the file says: all of it or nothing, and a second time changes nothing. */

export interface PlannedChanges {
  changes: Change[];
  /** Secrets made by the plan. They count only once it is applied. */
  shown: ShownKey[];
  /** What the file says and applying it does not do, for a reason the operator should know. */
  notes: string[];
  file: GatewayFile;
  steps: Step[];
  revisions: { policy: number; keys: number };
}

export type PlanResult = { ok: true; plan: PlannedChanges } | { ok: false; problems: Problem[] };

export interface FileSource {
  text: string;
  fileName: string;
  environment: Readonly<Record<string, string | undefined>>;
}

/** Reads, checks and compares. Writes nothing. */
export async function planChanges(
  installation: Secrets & Pick<Installation, "db">,
  source: FileSource,
  options: PlanOptions,
): Promise<PlanResult> {
  const { db } = installation;
  const revisions = await readRevisions(db);
  const state = await readState(db);
  // What pruning removes cannot be referred to.
  const known = options.prune ? NOTHING_KNOWN : knownNames(state);
  const parsed = parseGatewayFile(source.text, { ...source, known });
  if (!parsed.ok) return parsed;
  const { file, problemAt } = parsed;
  if (options.prune && namesNothing(file)) {
    const message = "The file names nothing, so pruning would remove everything. Apply it without pruning.";
    return { ok: false, problems: [{ ...problemAt({ path: [], message }) }] };
  }
  const { steps, shown, problems } = await planSteps(state, file, installation, options);
  if (problems.length > 0) return { ok: false, problems: problems.map(problemAt) };
  const notes = openingNotes(file.users, state.users, await readOpenings(db));
  if (options.prune) notes.push(...keptForTheirMoney(state, file));
  return { ok: true, plan: { changes: steps, shown, notes, file, steps, revisions } };
}

export class ChangedMeanwhile extends Error {
  override readonly name = "ChangedMeanwhile";
}

export async function applyChanges({ db }: Pick<Installation, "db">, plan: PlannedChanges): Promise<void> {
  if (plan.steps.length === 0) return;
  await transaction(db, async (tx) => {
    // First of all, for its lock: from here to the commit no other writer gets in.
    await bumpPolicyRevision(tx);
    const { policy, keys } = await readRevisions(tx);
    if (policy !== plan.revisions.policy + 1 || keys !== plan.revisions.keys) {
      throw new ChangedMeanwhile(
        "The installation was changed by somebody else in the meantime. Nothing was written.",
      );
    }
    for (const step of plan.steps) await step.write(tx);
  });
}

function knownNames(state: State): KnownNames {
  return {
    models: new Set(state.models.map(({ id }) => id)),
    accounts: new Set(state.accounts.map(({ name }) => name)),
    groups: new Set(state.groups.map(({ name }) => name)),
    plans: new Set(state.plans.map(({ name }) => name)),
    users: new Set(state.users.map(({ email }) => email.toLowerCase())),
  };
}

function namesNothing({ models, accounts, groups, plans, users, keys }: GatewayFile): boolean {
  return [models, accounts, groups, plans, users, keys].every((section) => section.length === 0);
}
