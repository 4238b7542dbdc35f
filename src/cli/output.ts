/** Prints the result of a command, as text or as JSON. */

import type { Input } from "./command.ts";
import { table } from "./terminal.ts";

export function printJson({ terminal }: Input, result: object): void {
  terminal.print(JSON.stringify(result, null, 2));
}

interface List {
  json: readonly object[];
  header: readonly string[];
  rows: readonly (readonly string[])[];
  /** Says that the list is empty, and how to add to it. */
  empty: string;
}

/** Prints a list as JSON with `--json`, otherwise as a table. */
export function printList(input: Input, { json, header, rows, empty }: List): void {
  const { print, printNote, paint } = input.terminal;
  if (input.flag("json")) printJson(input, json);
  else if (json.length === 0) printNote(empty);
  else print(table(header, rows, paint));
}
