/** Plans an import by the operation of `apply`. Entries that it rejects are reported, not imported. */

import type { Installation } from "../../config/installation/installation.ts";
import { type PlannedChanges, planDocument } from "../../config/plan/apply.ts";
import type { Problem } from "../../config/state/problem.ts";
import { readState } from "../../config/state/step.ts";
import { fail } from "../command.ts";
import { buildChanges, type ImportChanges, type ImportDocument } from "./build-changes.ts";
import type { Imported, ImportFinding, MonthlySpending, SourceName } from "./imported.ts";
import { type PlannedTopUp, planTopUps } from "./top-ups.ts";

export interface ImportPlan {
  readonly plan: PlannedChanges;
  readonly topUps: readonly PlannedTopUp[];
  readonly spending: readonly MonthlySpending[];
  readonly findings: readonly ImportFinding[];
  readonly isEmpty: boolean;
}

export async function planImport(
  installation: Installation,
  imported: Imported,
  { source, prefix }: { source: SourceName; prefix: string },
): Promise<ImportPlan> {
  const state = await readState(installation.db);
  const changes = buildChanges(imported, state, { digest: installation.digest, prefix });
  const { plan, findings } = await planDocumentWithoutRejected(installation, changes);
  const users = new Set([
    ...state.users.map(({ email }) => email.toLowerCase()),
    ...plan.file.users.map(({ email }) => email),
  ]);
  const money = await planTopUps(installation.db, imported.balances, { source, users });
  return {
    plan,
    topUps: money.topUps,
    spending: imported.spending,
    findings: [...imported.findings, ...changes.findings, ...findings, ...money.findings],
    isEmpty: plan.steps.length === 0 && money.topUps.length === 0,
  };
}

/** Each round leaves out what the round before made invalid: a model, then its groups, then their keys. */
const ROUNDS_MAX = 8;

async function planDocumentWithoutRejected(
  installation: Installation,
  { document: wanted, importedSecrets }: ImportChanges,
): Promise<{ plan: PlannedChanges; findings: ImportFinding[] }> {
  const findings: ImportFinding[] = [];
  let document = wanted;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const result = await planDocument(installation, document, { importedSecrets });
    if (result.ok) return { plan: result.plan, findings };
    document = removeRejected(document, result.problems, findings);
  }
  return fail("The import has entries that contradict each other. No changes were written.");
}

const PLACE =
  /^(models|accounts|request_policies|groups|users|keys)\[(\d+)\](?:\.(models|accounts|groups)\[(\d+)\])?/;

function removeRejected(
  document: ImportDocument,
  problems: readonly Problem[],
  findings: ImportFinding[],
): ImportDocument {
  const rest: Record<string, unknown[]> = { ...document };
  const removed = new Map<string, Set<number>>();
  const members = new Map<unknown, Map<string, Set<number>>>();
  for (const { field, message } of problems) {
    const [, section = "", index = "", list, position = ""] = PLACE.exec(field) ?? [];
    const entry = rest[section]?.[Number(index)];
    if (entry === undefined) fail(`${field}: ${message} No changes were written.`);
    findings.push({ subject: describeEntry(section, entry), message: `${field} ${message}` });
    if (list === undefined) removed.set(section, (removed.get(section) ?? new Set()).add(Number(index)));
    else {
      const lists = members.get(entry) ?? new Map<string, Set<number>>();
      members.set(entry, lists.set(list, (lists.get(list) ?? new Set()).add(Number(position))));
    }
  }
  const sections = Object.entries(rest).map(([section, entries]) => [
    section,
    entries
      .filter((_, i) => !removed.get(section)?.has(i))
      .map((entry) => withoutMembers(entry, members.get(entry))),
  ]);
  return Object.fromEntries(sections) as ImportDocument;
}

function withoutMembers(
  entry: unknown,
  lists: ReadonlyMap<string, ReadonlySet<number>> | undefined,
): unknown {
  if (lists === undefined || typeof entry !== "object" || entry === null) return entry;
  return Object.fromEntries(
    Object.entries(entry).map(([field, value]) => {
      const positions = lists.get(field);
      return [field, positions && Array.isArray(value) ? value.filter((_, i) => !positions.has(i)) : value];
    }),
  );
}

function describeEntry(section: string, entry: unknown): string {
  const fields: Record<string, unknown> = { ...(entry as object) };
  const noun = section === "request_policies" ? "request policy" : section.slice(0, -1);
  return `${noun} ${fields.name ?? fields.email ?? fields.id ?? ""}`;
}
