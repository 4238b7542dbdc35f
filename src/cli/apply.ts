import { readFileSync, statSync } from "node:fs";
import { applyChanges, ChangedMeanwhile, planChanges } from "../config/apply.ts";
import type { FieldChange } from "../config/difference.ts";
import { limits } from "../config/limits.ts";
import { formatProblem, type Problem } from "../config/problem.ts";
import type { Change } from "../config/step.ts";
import { type Command, DATA_OPTION, fail, JSON_OPTION } from "./command.ts";
import { operator } from "./operator.ts";
import { openerOf, withInstallation } from "./store-access.ts";
import { count, type Paint, type Terminal } from "./terminal.ts";

export const apply: Command = {
  words: "apply",
  summary: "Bring the installation to what a configuration file says",
  about: `Shows the difference first. What the file names is created or changed, what it does not name is left alone.
A running server takes the change up by itself.`,
  positionals: ["FILE"],
  options: {
    "dry-run": { about: "show the difference and change nothing" },
    prune: { about: "also remove what the file does not name (administrators only if it names another)" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(
      input,
      async (installation) => {
        const { terminal } = input;
        const fileName = input.need("FILE");
        const source = { text: readConfigFile(fileName), fileName, environment: input.environment };
        const result = await planChanges(installation, source, { prune: input.flag("prune") });
        if (!result.ok) {
          if (input.flag("json")) terminal.print(JSON.stringify({ problems: result.problems }, null, 2));
          else printProblems(result.problems, terminal);
          return 1;
        }
        const { plan } = result;
        const dry = input.flag("dry-run");
        const json = input.flag("json");
        if (!json) {
          terminal.print(differenceText(plan.changes, terminal.paint));
          for (const note of plan.notes) terminal.print(`${terminal.paint.dim("note:")} ${note}`);
        }
        if (!dry) {
          await applyChanges(installation, plan, { actor: operator(), address: null }).catch(
            (error: unknown) => {
              if (error instanceof ChangedMeanwhile) fail(error.message, "Run the same command again.");
              throw error;
            },
          );
        }
        if (json) {
          const changes = plan.changes.map(({ kind, what, fields }) => ({ kind, what, fields }));
          terminal.print(
            JSON.stringify(
              { applied: !dry, changes, notes: plan.notes, shown: dry ? [] : plan.shown },
              null,
              2,
            ),
          );
          return 0;
        }
        if (plan.changes.length === 0) return 0;
        terminal.print(dry ? "\nNothing was written: this was a dry run." : "\nApplied.");
        if (!dry) printShown(plan.shown, terminal);
        return 0;
      },
      openerOf(input),
    ),
};

export function readConfigFile(path: string): string {
  try {
    const stat = statSync(path);
    if (stat.isDirectory()) fail(`${path} is a folder.`, "Name the file itself, like gateway.yaml.");
    if (stat.size > limits.configFileBytesMax)
      fail(`${path} is larger than ${limits.configFileBytesMax} bytes.`);
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT")
      fail(`There is no file ${path}.`, "`model-gateway export` prints one to begin with.");
    if (code === "EACCES") fail(`${path} may not be read.`, `Check who owns it: ls -l ${path}`);
    throw error;
  }
}

export function printProblems(problems: readonly Problem[], terminal: Terminal): void {
  for (const problem of problems) terminal.remark(formatProblem(problem));
  terminal.remark(`\n${count(problems.length, "problem")} in ${problems[0]?.file}. Nothing was changed.`);
}

function printShown(shown: readonly { name: string; secret: string }[], { print, paint }: Terminal): void {
  if (shown.length === 0) return;
  print(`\n${shown.length === 1 ? "A key was made. It is" : "Keys were made. They are"} shown this once:`);
  const width = Math.max(...shown.map(({ name }) => Bun.stringWidth(name)));
  for (const { name, secret } of shown) {
    print(`  ${name}${" ".repeat(width - Bun.stringWidth(name))}  ${paint.bold(secret)}`);
  }
}

export function differenceText(changes: readonly Change[], paint: Paint): string {
  if (changes.length === 0) return "Nothing to change: the installation is as the file says.";
  const lines = changes.flatMap(({ kind, what, fields }) => {
    const title = { create: paint.green, change: paint.yellow, remove: paint.red }[kind];
    const sign = { create: "+", change: "~", remove: "-" }[kind];
    return [title(`${sign} ${what}`), ...fields.map((field) => `    ${fieldText(field, paint)}`)];
  });
  const tally = (kind: Change["kind"]) => changes.filter((change) => change.kind === kind).length;
  return [
    ...lines,
    "",
    `${tally("create")} to create, ${tally("change")} to change, ${tally("remove")} to remove.`,
  ].join("\n");
}

function fieldText({ field, from, to }: FieldChange, paint: Paint): string {
  const name = paint.dim(`${field}:`);
  if (from === to || from === null) return `${name} ${to}`;
  return `${name} ${from} ${paint.dim("→")} ${to ?? "(none)"}`;
}
