/** Secrets of settings that a file may omit to keep them, and what the console may not change about their destination. */

import type { FieldChange } from "../../records/policy.ts";
import { seal, unseal } from "../../secrets/seal.ts";
import { secretChange, secretSet } from "../state/difference.ts";
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

export const REENTER_SECRET = "must be entered again: the stored value belongs to the old address.";
export const FILE_ONLY =
  "cannot be enabled here. Set it in the configuration file and run `npx model-gateway apply`.";
