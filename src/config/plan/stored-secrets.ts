/** Secrets of settings that a file may omit to keep them, and what the console may not change about their destination. */

import type { FieldChange } from "../../records/policy.ts";
import { seal, unseal } from "../../secrets/seal.ts";
import {
  changedFields,
  type FormattedFields,
  formatBelow,
  secretChange,
  secretSet,
} from "../state/difference.ts";
import type { Secrets } from "../state/step.ts";

/** Keeps the stored secret if the file omits it or repeats it. */
export function sealIfChanged(
  binding: string,
  present: string | null,
  wanted: string | undefined,
  { keyring, randomBytes }: Secrets,
): string | null {
  if (wanted === undefined) return present;
  if (present !== null && unseal(keyring, binding, present) === wanted) return present;
  return seal(keyring, binding, wanted, randomBytes);
}

export function secretDifference(field: string, before: string | null, after: string | null): FieldChange[] {
  if (before === after) return [];
  if (after === null) return [{ field, from: "(set, not shown)", to: null }];
  return [before === null ? secretSet(field) : secretChange(field)];
}

/** An entry of a list. Its order is not a difference. */
interface SecretEntry {
  readonly name: string;
  readonly sealedSecret: string | null;
}

export function findByName<Entry extends SecretEntry>(
  entries: readonly Entry[],
  name: string,
): Entry | undefined {
  return entries.find((entry) => entry.name === name);
}

/** `list` and `secret`: the names of the list and of the secret in the file. */
export function diffByName<Entry extends SecretEntry>(
  {
    list,
    secret,
    shape,
  }: { list: string; secret: string; shape: { format(entry: NoInfer<Entry>): FormattedFields } },
  before: readonly Entry[],
  after: readonly Entry[],
): FieldChange[] {
  const format = (entries: readonly Entry[]) =>
    Object.assign({}, ...entries.map((entry) => formatBelow(`${list}.${entry.name}`, shape.format(entry))));
  const names = new Set([...before, ...after].map(({ name }) => name));
  return [
    ...changedFields(format(before), format(after)),
    ...[...names].flatMap((name) =>
      secretDifference(
        `${list}.${name}.${secret}`,
        findByName(before, name)?.sealedSecret ?? null,
        findByName(after, name)?.sealedSecret ?? null,
      ),
    ),
  ];
}

export const REENTER_SECRET = "must be entered again: the stored value belongs to the old address.";
export const FILE_ONLY =
  "cannot be enabled here. Set it in the configuration file and run `npx model-gateway apply`.";
