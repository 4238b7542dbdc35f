/**
 * Limits what a file may change that a service account applies. A file can grant roles, passwords, money and keys, so
 * everything is rejected that the scopes of the account do not name.
 */

import { keyTitle } from "../../records/key.ts";
import type { ServiceScope } from "../../records/service-account.ts";
import { destinationProblems } from "../parse/check-destinations.ts";
import { isSecretPath } from "../parse/file.ts";
import { isRecord } from "../parse/items.ts";
import type { GatewayFile } from "../schema/schema.ts";
import type { FieldProblem, Path } from "../state/problem.ts";
import type { Change, ConfigState } from "../state/step.ts";

import { serviceAccountTitle } from "./plan-service-accounts.ts";

/** The sections that each scope opens, with the first word of their changes. */
const SECTION_SCOPES: readonly (readonly [section: keyof GatewayFile, word: string, scope: ServiceScope])[] =
  [
    ["models", "model", "config.apply"],
    ["accounts", "account", "config.apply"],
    ["request_policies", "request_policy", "config.apply"],
    ["groups", "group", "config.apply"],
    ["plans", "plan", "config.apply"],
    ["keys", "key", "keys.write"],
  ];

/** What a plan of a service account may change. */
export interface PlanPermit {
  readonly sections: ReadonlySet<string>;
  /** First words of permitted changes. */
  readonly words: ReadonlySet<string>;
}

export function buildPermit(scopes: readonly ServiceScope[]): PlanPermit {
  const open = SECTION_SCOPES.filter(([, , scope]) => scopes.includes(scope));
  return {
    sections: new Set(open.map(([section]) => section)),
    words: new Set(open.map(([, word]) => word)),
  };
}

export function isPermitted({ what }: Pick<Change, "what">, permit: PlanPermit | undefined): boolean {
  return permit === undefined || permit.words.has(firstWord(what));
}

function firstWord(what: string): string {
  return what.split(" ", 1)[0] ?? "";
}

const REJECTED =
  "This service account may not change it. Remove it from the file, or apply the file on the host.";

/**
 * Checked before the file is compared with the state: the comparison would show whether a guessed password is right, and
 * hashing takes time.
 */
export function findForbiddenSecrets(
  file: GatewayFile,
  state: ConfigState,
  { sections }: PlanPermit,
): FieldProblem[] {
  const secrets = Object.entries(file)
    .filter(([section]) => !sections.has(section))
    .flatMap(([section, value]) => findSecrets(value, [section]));
  const networks = destinationProblems(file, state).filter(({ path }) => path.at(-1) === "private_network");
  return [
    ...secrets.map((path) => ({ path, message: `is a secret. ${REJECTED}` })),
    ...networks.map(({ path }) => ({ path, message: `opens a private network. ${REJECTED}` })),
  ];
}

function findSecrets(value: unknown, path: Path): Path[] {
  if (Array.isArray(value)) return value.flatMap((item, i) => findSecrets(item, [...path, i]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, field]) => {
    const fieldPath = [...path, name];
    return isSecretPath(fieldPath) && field !== undefined ? [fieldPath] : findSecrets(field, fieldPath);
  });
}

export function findForbiddenChanges(
  changes: readonly Change[],
  file: GatewayFile,
  permit: PlanPermit,
): FieldProblem[] {
  return changes
    .filter((change) => !isPermitted(change, permit))
    .map(({ kind, what }) => ({
      path: findPath(what, file),
      message: `would ${kind} ${what}. ${REJECTED}`,
    }));
}

/** The place of the file that a change comes from. */
function findPath(what: string, file: GatewayFile): Path {
  const word = firstWord(what);
  const isNamed = (title: string) => title.toLowerCase() === what.toLowerCase();
  switch (word) {
    case "user":
      return entryPath(
        "users",
        file.users.findIndex(({ email }) => isNamed(`user ${email}`)),
      );
    case "subscription":
      return entryPath(
        "users",
        file.users.findIndex(({ email }) => what.toLowerCase().includes(email)),
      );
    case "key":
      return entryPath(
        "keys",
        file.keys.findIndex(({ name, user }) => isNamed(keyTitle(name, user ?? null))),
      );
    case "service_account":
      return entryPath(
        "service_accounts",
        file.service_accounts.findIndex(({ name }) => isNamed(serviceAccountTitle(name))),
      );
    default:
      return [word];
  }
}

function entryPath(section: string, index: number): Path {
  return index === -1 ? [section] : [section, index];
}
