/** Prints the changes of a configuration file, their outcome, and the problems of the file. */

import type { FieldChange } from "../config/state/difference.ts";
import { formatProblem, type Problem } from "../config/state/problem.ts";
import type { Change } from "../config/state/step.ts";
import type { Input } from "./command.ts";
import { secretFileText } from "./secret-output.ts";
import { count, type Paint, type Terminal } from "./terminal.ts";

export interface PrintedPlan {
  changes: readonly Change[];
  notes: readonly string[];
  /** Keys that it creates, with their secrets. */
  shown: readonly { name: string; secret: string }[];
}

export function reportProblems(problems: readonly Problem[], { flag, terminal }: Input): number {
  if (flag("json")) terminal.print(JSON.stringify({ problems }, null, 2));
  else printProblems(problems, terminal);
  return 1;
}

export function printDifference(
  { changes, notes }: Pick<PrintedPlan, "changes" | "notes">,
  { flag, terminal }: Input,
): void {
  if (flag("json")) return;
  terminal.print(differenceText(changes, terminal.paint));
  for (const note of notes) terminal.print(`${terminal.paint.dim("note:")} ${note}`);
}

/** `secretFile` has the secrets of new keys, if they are not printed. */
export function printOutcome(
  { changes, notes, shown }: PrintedPlan,
  { flag, terminal }: Input,
  secretFile: string | null,
): void {
  const dry = flag("dry-run");
  if (flag("json")) {
    const changeList = changes.map(({ kind, what, fields }) => ({ kind, what, fields }));
    const secrets =
      secretFile === null
        ? { shown: dry ? [] : shown }
        : { shown: shown.map(({ secret: _, ...key }) => key), secret_file: secretFile };
    terminal.print(JSON.stringify({ applied: !dry, changes: changeList, notes, ...secrets }, null, 2));
    return;
  }
  if (changes.length === 0) return;
  terminal.print(dry ? "\nDry run: no changes were written." : "\nApplied.");
  if (secretFile !== null)
    terminal.print(`\n${count(shown.length, "new key")} in ${secretFileText(secretFile)}`);
  else if (!dry) printShown(shown, terminal);
}

export function printProblems(problems: readonly Problem[], terminal: Terminal): void {
  for (const problem of problems) terminal.printNote(formatProblem(problem));
  terminal.printNote(
    `\n${count(problems.length, "problem")} in ${problems[0]?.file}. No changes were written.`,
  );
}

function printShown(shown: readonly { name: string; secret: string }[], { print, paint }: Terminal): void {
  if (shown.length === 0) return;
  print(
    `\n${shown.length === 1 ? "A key was created. Its secret is" : "Keys were created. Their secrets are"} shown only once:`,
  );
  const width = Math.max(...shown.map(({ name }) => Bun.stringWidth(name)));
  for (const { name, secret } of shown) {
    print(`  ${name}${" ".repeat(width - Bun.stringWidth(name))}  ${paint.bold(secret)}`);
  }
}

export function differenceText(changes: readonly Change[], paint: Paint): string {
  if (changes.length === 0) return "No changes: the installation matches the file.";
  const lines = changes.flatMap(({ kind, what, fields }) => {
    const title = { create: paint.green, change: paint.yellow, remove: paint.red }[kind];
    const sign = { create: "+", change: "~", remove: "-" }[kind];
    return [title(`${sign} ${what}`), ...fields.map((field) => `    ${formatField(field, paint)}`)];
  });
  const tally = (kind: Change["kind"]) => changes.filter((change) => change.kind === kind).length;
  return [
    ...lines,
    "",
    `${tally("create")} to create, ${tally("change")} to change, ${tally("remove")} to remove.`,
  ].join("\n");
}

function formatField({ field, from, to }: FieldChange, paint: Paint): string {
  const name = paint.dim(`${field}:`);
  if (from === to || from === null) return `${name} ${to}`;
  return `${name} ${from} ${paint.dim("→")} ${to ?? "(none)"}`;
}
