/** Parses and prints points in time for commands. All of them are UTC. */

import { instantText } from "../base/time.ts";
import { INSTANT_RULE, instantMs } from "../config/schema/basic-values.ts";
import { type Input, misuse, type Option } from "./command.ts";

export const EXPIRES_OPTION: Option = {
  value: "DATE",
  about: "2027-01-31 (until the end of that day, UTC) or 2027-01-31T12:00:00Z",
};

/** Returns null if the option is omitted. A date without a time means the end of that day by default. */
export function instantFrom(
  input: Input,
  option: string,
  read: (value: string) => number | null = instantMs,
): number | null {
  const value = input.text(option);
  if (value === undefined) return null;
  return read(value) ?? misuse(`--${option} must be ${INSTANT_RULE}.`, "All times are UTC.");
}

/** `2027-01-31 12:00:05` */
export function shortInstant(ms: number): string {
  return instantText(ms).slice(0, 19).replace("T", " ");
}
