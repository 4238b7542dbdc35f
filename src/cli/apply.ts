/** `model-gateway apply`: applies a configuration file. */

import { readFileSync, statSync } from "node:fs";
import { type Installation, openOrCreate, openToPlan } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import {
  applyChanges,
  ConcurrentChangeError,
  type PlannedChanges,
  planChanges,
} from "../config/plan/apply.ts";
import type { FieldChange } from "../config/state/difference.ts";
import { formatProblem, type Problem } from "../config/state/problem.ts";
import type { Change } from "../config/state/step.ts";
import { type Command, DATA_OPTION, fail, type Input, JSON_OPTION } from "./command.ts";
import { operator } from "./operator.ts";
import { PROGRAM } from "./program-name.ts";
import { readNamedFiles } from "./secret-files.ts";
import {
  chooseSecretTarget,
  SECRET_OPTIONS,
  SECRET_RULE,
  secretFileText,
  storeSecrets,
} from "./secret-output.ts";
import { isInstallationMissing, readCommandSettings, withInstallation } from "./store-access.ts";
import { count, type Paint, type Terminal } from "./terminal.ts";

/** The hint for a missing configuration file. */
export const NO_FILE = `docs/configuration.md has an example, and \`${PROGRAM} export\` prints the current configuration.`;

export const apply: Command = {
  words: "apply",
  summary: "Apply a configuration file",
  changes: "policy",
  about: `Shows the changes first. Objects in the file are created or updated; objects that are not in the file stay unchanged.
A running server applies the changes without a restart. ${SECRET_RULE}`,
  positionals: ["FILE"],
  options: {
    "dry-run": { about: "show the changes without writing them" },
    prune: {
      about: "also remove objects that are not in the file (administrators only if the file has another one)",
    },
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  async run(input) {
    const fileName = input.require("FILE");
    const source = readConfigSource(fileName, input.environment);
    const plan = (installation: Installation) =>
      planChanges(installation, source, { prune: input.flag("prune") });
    const settings = readCommandSettings(input);
    const isNew = isInstallationMissing(settings);
    const dry = input.flag("dry-run");
    if (dry || isNew) {
      // For a new installation, the plan runs on an empty store first, so that a rejected file creates nothing.
      const result = await withInstallation(input, plan, openToPlan);
      if (!result.ok) return reportProblems(result.problems, input);
      if (dry) {
        printDifference(result.plan, input);
        printOutcome(result.plan, input, null);
        return 0;
      }
    }
    return withInstallation(
      input,
      async (installation) => {
        const result = await plan(installation);
        if (!result.ok) return reportProblems(result.problems, input);
        printDifference(result.plan, input);
        const target = chooseSecretTarget(input, settings, "keys");
        await applyPlan(installation, result.plan);
        printOutcome(result.plan, input, storeSecrets(target, result.plan.shown));
        // Reported explicitly, because the folder may not be the intended one.
        if (isNew) input.terminal.printNote(`\nA new installation was created in ${settings.dataDir}.`);
        return 0;
      },
      openOrCreate,
    );
  },
};

function reportProblems(problems: readonly Problem[], { flag, terminal }: Input): number {
  if (flag("json")) terminal.print(JSON.stringify({ problems }, null, 2));
  else printProblems(problems, terminal);
  return 1;
}

function printDifference({ changes, notes }: PlannedChanges, { flag, terminal }: Input): void {
  if (flag("json")) return;
  terminal.print(differenceText(changes, terminal.paint));
  for (const note of notes) terminal.print(`${terminal.paint.dim("note:")} ${note}`);
}

async function applyPlan(installation: Installation, plan: PlannedChanges): Promise<void> {
  try {
    await applyChanges(installation, plan, { actor: operator(), address: null });
  } catch (error) {
    if (error instanceof ConcurrentChangeError) fail(error.message, "Run the same command again.");
    throw error;
  }
}

/** `secretFile` has the secrets of new keys, if they are not printed. */
function printOutcome(
  { changes, notes, shown }: PlannedChanges,
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

/** `missing` is the hint for a missing file. */
/** A configuration file with the values that its `${…}` may name. */
export interface ConfigSource {
  text: string;
  fileName: string;
  environment: Readonly<Record<string, string | undefined>>;
}

export function readConfigSource(fileName: string, environment: ConfigSource["environment"]): ConfigSource {
  const text = readConfigFile(fileName, NO_FILE);
  return {
    text,
    fileName,
    environment: { ...environment, ...readNamedFiles(text, { fileName, environment }) },
  };
}

export function readConfigFile(path: string, missing: string): string {
  try {
    const stat = statSync(path);
    if (stat.isDirectory()) fail(`${path} is a folder.`, "Use the path of the file, like gateway.yaml.");
    if (stat.size > limits.configFileBytesMax)
      fail(`${path} is larger than ${limits.configFileBytesMax} bytes.`);
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT") fail(`The file ${path} does not exist.`, missing);
    if (code === "EACCES") fail(`No permission to read ${path}.`, `Check its owner and mode: ls -l ${path}`);
    throw error;
  }
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
