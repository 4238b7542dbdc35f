/** The command line: finds the command and runs it. */

import { nearestName } from "../policy/nearest-name.ts";
import { StoreProblem } from "../store/engine/store-problem.ts";
import { VERSION } from "../version.ts";
import { type CommandEntry, Failure, loadCommand, misuse, runCommand } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { readEnvironmentFile } from "./environment-file.ts";
import { PROGRAM } from "./program-name.ts";
import { readVariableFiles } from "./secret-files.ts";
import { openTerminal, type Terminal } from "./terminal.ts";

const HELP = `See: ${PROGRAM} --help`;

async function main(argv: readonly string[], terminal: Terminal): Promise<number> {
  const environment = readVariableFiles(readEnvironmentFile(process.env));
  const [first, second] = argv;
  if (first === undefined || first === "--help" || first === "-h" || first === "help") {
    terminal.print(overview(terminal));
    return 0;
  }
  if (first === "--version" || first === "-v") {
    terminal.print(VERSION);
    return 0;
  }
  const command = COMMANDS.find(({ words }) => words === first || words === `${first} ${second}`);
  if (command === undefined) {
    const family = listFamily(first);
    if (family.length === 0 || (second !== "--help" && second !== "-h")) return failUnknown(first, second);
    terminal.print(usageText(`${first} COMMAND`, family));
    return 0;
  }
  return runCommand(
    await loadCommand(command),
    argv.slice(command.words.split(" ").length),
    environment,
    terminal,
  );
}

/** `keys` → keys create, keys list and so on. */
function listFamily(word: string): readonly CommandEntry[] {
  return COMMANDS.filter(({ words }) => words.startsWith(`${word} `));
}

function failUnknown(first: string, second: string | undefined): never {
  if (first.startsWith("-")) misuse(`Unknown option ${first}.`, HELP);
  const family = listFamily(first).map(({ words }) => words);
  if (family.length > 0) {
    misuse(
      `${second === undefined ? `"${first}" is incomplete.` : "Unknown command."} Commands: ${family.join(", ")}.`,
      HELP,
    );
  }
  const words = COMMANDS.flatMap((command) => command.words.split(" ")[0] ?? []);
  const close = nearestName(first, words);
  misuse(`Unknown command "${first}".${close === null ? "" : ` Did you mean ${close}?`}`, HELP);
}

function overview({ paint }: Terminal): string {
  return [
    `${paint.bold("Model Gateway")} ${paint.dim(VERSION)}`,
    "",
    usageText("COMMAND", COMMANDS),
    "",
    `Run ${PROGRAM} COMMAND --help for details. The database is SQLite in the data folder, unless DATABASE_URL is set.`,
  ].join("\n");
}

function usageText(form: string, commands: readonly CommandEntry[]): string {
  const forms = commands.map(({ words, positionals = [] }) => [words, ...positionals].join(" "));
  const width = Math.max(...forms.map(({ length }) => length));
  return [
    `Usage: ${PROGRAM} ${form} [options]`,
    "",
    ...commands.map(({ summary }, i) => `  ${forms[i]?.padEnd(width)}  ${summary}`),
  ].join("\n");
}

/** Of errors that are not failures of the command line itself, the ones whose message is for operators. */
async function isForOperators(error: unknown): Promise<boolean> {
  const access = await import("./store-access.ts");
  return access.isForOperators(error);
}

const terminal = openTerminal(process.env);
try {
  process.exitCode = await main(process.argv.slice(2), terminal);
} catch (thrown) {
  const error = thrown instanceof StoreProblem ? new Failure(thrown.problem, thrown.todo, 1) : thrown;
  const isFailure = error instanceof Failure;
  const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
  const isExpected = isFailure || (await isForOperators(error));
  terminal.printNote(`model-gateway: ${isExpected ? "" : `unexpected ${name}: `}${message}`);
  if (isFailure && error.hint) terminal.printNote(error.hint);
  process.exitCode = isFailure ? error.exitCode : 1;
}
