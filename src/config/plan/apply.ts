/**
 * Plans and applies a configuration file or document. All changes are applied in one transaction, and applying
 * them again changes nothing.
 */

import { isBuiltIn } from "../../accounts/kinds/table.ts";
import { mapKinds } from "../../base/map-kinds.ts";
import { findLocalAddress } from "../../net/http-client/ip-addresses.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpPolicyRevision, readRevisions } from "../../store/engine/revisions.ts";
import { readOpenings } from "../../store/money/entries.ts";
import { defaultBaseUrl } from "../account-defaults.ts";
import type { Installation } from "../installation/installation.ts";
import { localAddressText } from "../parse/check-account.ts";
import { checkDocument, parseGatewayFile, type Source } from "../parse/file.ts";
import { type KnownNames, NO_KNOWN_NAMES, REFERENCE_SECTIONS, readKnownNames } from "../parse/references.ts";
import type { GatewayDocument, GatewayFile } from "../schema/schema.ts";
import type { FieldProblem, Problem } from "../state/problem.ts";
import { type Change, type ConfigState, type PlanStep, readState, type Secrets } from "../state/step.ts";
import { ConcurrentChangeError } from "./concurrent-change.ts";
import { openingNotes } from "./opening-balance.ts";
import { type PlanOptions, planSteps } from "./plan.ts";
import type { GeneratedKey } from "./plan-keys.ts";
import { type Removals, usersWithMoney, withRemainingGroups } from "./plan-removals.ts";
import { findForbiddenChanges, findForbiddenSecrets } from "./plan-scope.ts";
import type { ReadFile } from "./plan-tool-sign-in.ts";
import { readAffectedState } from "./read-affected-state.ts";

export interface PlannedChanges {
  changes: Change[];
  /** Secrets that the plan created. They are valid only once it is applied. */
  shown: GeneratedKey[];
  /** Notes about values of the file that are not applied, with the reason. */
  notes: string[];
  file: GatewayFile;
  steps: PlanStep[];
  revisions: { policy: number; keys: number };
}

export type PlanResult =
  | { ok: true; plan: PlannedChanges }
  /** `isOutOfScope`: the problems are changes that the service account may not make. */
  | { ok: false; problems: Problem[]; isOutOfScope?: boolean };

export interface FileSource extends Omit<Source, "known"> {
  text: string;
  /** Reads a file that the text names. Only the command line on the host has one. */
  readFile?: ReadFile;
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
  // The file cannot refer to names that pruning removes.
  const known = options.prune ? NO_KNOWN_NAMES : readKnownNames(state);
  const parsed = parseGatewayFile(source.text, { ...source, known });
  if (!parsed.ok) return parsed;
  const { file, problemAt } = parsed;
  if (options.prune && isEmptyDocument(file)) {
    const message = "The file is empty, so --prune would remove everything. Apply it without --prune.";
    return { ok: false, problems: [{ ...problemAt({ path: [], message }) }] };
  }
  if (options.permit !== undefined) {
    const forbidden = findForbiddenSecrets(file, state, options.permit);
    if (forbidden.length > 0) return { ok: false, problems: forbidden.map(problemAt), isOutOfScope: true };
  }
  const { readFile } = source;
  return buildPlan(installation, { state, file, problemAt, revisions }, { ...options, readFile });
}

export interface DocumentOptions extends Pick<PlanOptions, "removals" | "fromConsole" | "importedSecrets"> {
  /** The revisions from before the data of the document was read. If they have changed, applying fails. */
  since?: PlannedChanges["revisions"];
}

/**
 * Plans a document, such as the content of a form, and removals. Removed models and accounts are taken out of
 * their groups. Keys are removed with their group or user.
 */
export async function planDocument(
  installation: Secrets & Pick<Installation, "db">,
  document: GatewayDocument,
  options: DocumentOptions = {},
): Promise<PlanResult> {
  const { removals = {} } = options;
  const { db } = installation;
  const revisions = options.since ?? (await readRevisions(db));
  const state = await readAffectedState(db, document, removals);
  const parsed = checkDocument(
    withRemainingGroups(state, document, removals),
    knownNamesAfter(state, removals),
  );
  if (!parsed.ok) return parsed;
  const { file, problemAt } = parsed;
  return buildPlan(installation, { state, file, problemAt, revisions }, { ...options, prune: false });
}

/**
 * Returns the state that would result from an unsaved form, and its problems. The state is null if the document
 * is invalid.
 */
export async function previewDocument(
  installation: Secrets & Pick<Installation, "db">,
  document: GatewayDocument,
): Promise<{ after: ConfigState | null; problems: Problem[] }> {
  const state = await readAffectedState(installation.db, document, {});
  const parsed = checkDocument(document, readKnownNames(state));
  if (!parsed.ok) return { after: null, problems: parsed.problems };
  const { after, problems } = await planSteps(state, parsed.file, installation, {
    prune: false,
    fromConsole: true,
  });
  return { after, problems: problems.map(parsed.problemAt) };
}

interface CheckedFile {
  state: ConfigState;
  file: GatewayFile;
  revisions: PlannedChanges["revisions"];
  problemAt(problem: FieldProblem): Problem;
}

/** An account that no request can use, unless its address is meant to be unreachable. */
function noteBlockedAddress(account: GatewayFile["accounts"][number]): string[] {
  if (isBuiltIn(account.kind) || account.private_network) return [];
  const baseUrl = account.base_url ?? defaultBaseUrl(account);
  const kind = findLocalAddress(baseUrl);
  return kind === null ? [] : [`accounts.${account.name}.private_network ${localAddressText(baseUrl, kind)}`];
}

async function buildPlan(
  installation: Secrets & Pick<Installation, "db">,
  { state, file, revisions, problemAt }: CheckedFile,
  options: PlanOptions,
): Promise<PlanResult> {
  const { steps, shown, problems } = await planSteps(state, file, installation, options);
  const { prune, permit } = options;
  const forbidden = permit === undefined ? [] : findForbiddenChanges(steps, file, permit);
  if (forbidden.length > 0) return { ok: false, problems: forbidden.map(problemAt), isOutOfScope: true };
  if (problems.length > 0) return { ok: false, problems: problems.map(problemAt) };
  const namesBalances = file.users.some(({ balance }) => balance !== undefined);
  // Notes about balances are not for a service account that may not change users.
  const notes = [
    ...(namesBalances && permit === undefined
      ? openingNotes(file.users, state.users, await readOpenings(installation.db))
      : []),
    ...(prune && permit === undefined ? usersWithMoney(state, file) : []),
    ...file.accounts.flatMap(noteBlockedAddress),
  ];
  return { ok: true, plan: { changes: steps, shown, notes, file, steps, revisions } };
}

/** The author that the audit log records. */
export type ChangeAuthor = Pick<ChangeEntry, "actor" | "address">;

export const SYSTEM_AUTHOR: ChangeAuthor = {
  actor: { kind: "system", id: null, name: "gateway" },
  address: null,
};

export async function applyChanges(
  { db, clock }: Pick<Installation, "db" | "clock">,
  plan: PlannedChanges,
  author: ChangeAuthor = SYSTEM_AUTHOR,
): Promise<void> {
  if (plan.steps.length === 0) return;
  await transaction(db, async (tx) => {
    // First, because it takes the lock: no other process writes from here to the commit.
    await bumpPolicyRevision(tx);
    const { policy, keys } = await readRevisions(tx);
    if (policy !== plan.revisions.policy + 1 || keys !== plan.revisions.keys) {
      throw new ConcurrentChangeError();
    }
    await write(tx, clock, plan, author);
  });
}

/**
 * Applies a plan that another writer has overtaken before. The lock is taken before planning, so this cannot
 * happen again. `plan` must use only the database that is passed to it: on SQLite, a query on another
 * connection would wait for the end of this transaction.
 */
async function applyExclusively(
  { db, clock }: Pick<Installation, "db" | "clock">,
  plan: (tx: Db) => Promise<PlannedChanges>,
  author: ChangeAuthor = SYSTEM_AUTHOR,
): Promise<PlannedChanges> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const planned = await plan(tx);
    await write(tx, clock, planned, author);
    return planned;
  });
}

/**
 * Plans and applies. Planning happens without a lock. Only if a concurrent change came first, it is repeated under the
 * lock. `plan` must use only the database that is passed to it.
 */
export async function applyLatest(
  installation: Pick<Installation, "db" | "clock">,
  author: ChangeAuthor,
  plan: (db: Db) => Promise<PlannedChanges>,
): Promise<PlannedChanges> {
  try {
    const planned = await plan(installation.db);
    await applyChanges(installation, planned, author);
    return planned;
  } catch (error) {
    if (error instanceof ConcurrentChangeError) return applyExclusively(installation, plan, author);
    throw error;
  }
}

async function write(
  tx: Db,
  clock: Installation["clock"],
  { steps, changes }: PlannedChanges,
  author: ChangeAuthor,
): Promise<void> {
  for (const step of steps) await step.write(tx);
  for (const change of changes) {
    await appendChange(tx, { ...author, ...buildLogEntry(change), atMs: clock.nowMs() });
  }
}

/** `group default` → `group.change` */
function buildLogEntry({ kind, what, fields }: Change): Pick<ChangeEntry, "action" | "target" | "changes"> {
  const [noun] = what.split(" ", 1);
  return { action: `${noun}.${kind}`, target: what, changes: fields };
}

/** A document cannot refer to names that it removes. */
function knownNamesAfter(state: ConfigState, removals: Removals): KnownNames {
  const known = readKnownNames(state);
  return mapKinds(REFERENCE_SECTIONS, (section) => known[section].difference(new Set(removals[section])));
}

function isEmptyDocument(file: GatewayFile): boolean {
  const { models, accounts, request_policies: policies, groups, plans, users, keys } = file;
  const sections = [models, accounts, policies, groups, plans, users, keys, file.service_accounts];
  return sections.every((section) => section.length === 0);
}
