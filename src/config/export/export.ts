/** Exports the current configuration in the format of gateway.yaml. */

import { Document, isMap, isScalar, isSeq, type YAMLMap } from "yaml";
import { type Clock, systemClock } from "../../base/clock.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { RULES } from "../../records/request-policy.ts";
import type { WebhookRecord } from "../../records/settings.ts";
import type { Db } from "../../store/engine/db.ts";
import { planToFile, subscriptionsToFile } from "../plan/plan-grants.ts";
import { activeKeys } from "../plan/plan-keys.ts";
import { serviceAccountToFile } from "../plan/plan-service-accounts.ts";
import { settingsToFile } from "../plan/plan-settings.ts";
import { type ConfigState, readState } from "../state/step.ts";
import {
  accountToFile,
  groupToFile,
  keyToFile,
  modelToFile,
  nameRecords,
  requestPolicyToFile,
  userToFile,
} from "../state/to-file-shape.ts";

/** The current state as a configuration file. It has no secrets; applying it keeps the stored ones. */
export async function exportFile(db: Db, clock: Clock = systemClock): Promise<string> {
  const state = await readState(db);
  const notes: Notes = {
    accounts: state.accounts.map(({ sealedCredential }) =>
      sealedCredential === null ? null : " credential: stored, not exported",
    ),
    users: state.users.map(({ passwordHash }) =>
      passwordHash === null ? null : " password: stored, not exported",
    ),
    smtp: [state.smtp?.sealedPassword ? " password: stored, not exported" : null],
    alerts: state.alerts.webhooks.map(describeSecret),
    usage_export: state.usageExport.webhooks.map(describeSecret),
  };
  const parts: string[] = [];
  for (const [section, value] of Object.entries(buildSections(state, clock.nowMs()))) {
    for (const part of serializeSection(section, value, notes[section] ?? [])) {
      parts.push(part);
      await nextTurn();
    }
  }
  return parts.join("");
}

function describeSecret({ sealedSecret }: WebhookRecord): string | null {
  return sealedSecret === null ? null : " secret: stored, not exported";
}

function buildSections(state: ConfigState, nowMs: number) {
  const names = nameRecords(state);
  const { groups: groupNames } = names;
  const emails = new Map(state.users.map(({ id, email }) => [id, email]));
  const subscriptions = subscriptionsToFile(state, nowMs);
  return {
    ...settingsToFile(state),
    models: state.models.map(modelToFile),
    accounts: state.accounts.map(accountToFile),
    ...(state.requestPolicies.length === 0
      ? {}
      : { request_policies: state.requestPolicies.map(requestPolicyToFile) }),
    groups: state.groups.map((group) => groupToFile(group, names)),
    ...(state.plans.length === 0 ? {} : { plans: state.plans.map(planToFile) }),
    users: state.users.map((user) => userToFile(user, groupNames, subscriptions.get(user.id))),
    keys: [...activeKeys(state).values()].map((key) => keyToFile(key, groupNames, emails)),
    ...(state.serviceAccounts.length === 0
      ? {}
      : { service_accounts: state.serviceAccounts.map(serviceAccountToFile) }),
  };
}

/** Comments to insert above the second field of an entry, by section and index. */
type Notes = Readonly<Record<string, readonly (string | null)[]>>;

const ENTRIES_AT_ONCE = 500;

/** Serializes a section a few entries at a time: 100,000 at once would block every request for seconds. */
function* serializeSection(
  section: string,
  value: unknown,
  notes: readonly (string | null)[],
): Generator<string> {
  if (!Array.isArray(value) || value.length <= ENTRIES_AT_ONCE) {
    yield toYaml(section, value, notes);
    return;
  }
  for (let from = 0; from < value.length; from += ENTRIES_AT_ONCE) {
    const end = from + ENTRIES_AT_ONCE;
    const text = toYaml(section, value.slice(from, end), notes.slice(from, end));
    // Every slice repeats the line with the section name. Only the first one may keep it.
    yield from === 0 ? text : text.slice(text.indexOf("\n") + 1);
  }
}

function toYaml(section: string, value: unknown, notes: readonly (string | null)[]): string {
  const document = new Document({ [section]: escapeVariables(value) });
  notes.forEach((note, i) => {
    const item = document.getIn(entryAt(section, i));
    if (note !== null && isMap(item)) noteAfterName(item, note);
  });
  formatOnOneLine(document.contents);
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}

/** Most sections are a list of entries. `smtp` is a single entry, and two sections contain a list of webhooks. */
function entryAt(section: string, i: number): (string | number)[] {
  if (section === "smtp") return [section];
  return section === "alerts" || section === "usage_export" ? [section, "webhooks", i] : [section, i];
}

/** Escapes a stored `${`, which is text and not a variable. Keys of a map are never interpolated. */
function escapeVariables(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("${", () => "$${");
  if (Array.isArray(value)) return value.map(escapeVariables);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, escapeVariables(field)]));
}

const ON_ONE_LINE = new Set<unknown>([
  "price",
  "model_prices",
  "models",
  "limits",
  "group_limits",
  "queue",
  ...RULES,
  "bounds",
]);

/** Formats lists of names, prices, limits and maps of names on one line, as operators usually write them. */
function formatOnOneLine(node: unknown): void {
  if (isSeq(node)) {
    if (node.items.every(isScalar)) node.flow = true;
    node.items.forEach(formatOnOneLine);
  }
  if (!isMap(node)) return;
  for (const { key, value } of node.items) {
    if (isScalar(key) && ON_ONE_LINE.has(key.value) && isMap(value)) value.flow = true;
    formatOnOneLine(value);
  }
}

function noteAfterName(item: YAMLMap, text: string): void {
  const second = item.items[1];
  if (second !== undefined && isScalar(second.key)) second.key.commentBefore = text;
}
