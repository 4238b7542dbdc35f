/** What a command is: its words, its options and its action. Help and errors are generated from it. */

import { parseArgs } from "node:util";
import { nearestName } from "../policy/nearest-name.ts";
import { PROGRAM } from "./program-name.ts";
import type { Terminal } from "./terminal.ts";

export interface Option {
  /** Placeholder of the value, such as FILE; omitted for a switch. */
  value?: string;
  about: string;
  required?: boolean;
}

/** What commands change. A command that changes nothing gets a store that rejects writes. */
export const EFFECTS = {
  nothing: "nothing",
  policy: "the configuration: models, accounts, groups, users, keys, prices and settings",
  access: "who has access: users, API keys, tokens and links",
  money: "money: balances, subscriptions and redeem codes",
  secrets: "the master key, and the encryption of stored secrets",
  schema: "the schema of an older database",
  computer: "files of this user: the credentials of tools, and their settings with `setup`",
  import: "the configuration and money: models, accounts, groups, users, keys and balances",
  store: "the database that the installation uses",
  all: "the schema of an older database, the configuration if --config is set, and what requests change",
} as const;
type Effect = keyof typeof EFFECTS;

/** A command as the table lists it. */
export interface CommandEntry {
  /** `keys create` */
  readonly words: string;
  readonly summary: string;
  /** Names of the positional values; one in brackets is optional, and a last one with `...` may have several. */
  readonly positionals?: readonly string[];
  /** Imports the module of the command. */
  load(): Promise<CommandDefinition>;
}

/** What the module of a command declares. */
export interface CommandDefinition {
  changes: Effect;
  /** Details for `--help`, beyond the summary. */
  about?: string;
  options: Readonly<Record<string, Option>>;
  /** Resolves to the exit code, or to nothing for 0. */
  run(input: Input): Promise<number> | Promise<void>;
}

export type Command = Omit<CommandEntry, "load"> & CommandDefinition;

export async function loadCommand({ load, ...entry }: CommandEntry): Promise<Command> {
  return { ...entry, ...(await load()) };
}

export interface Input {
  text(option: string): string | undefined;
  /** Returns an option or positional that the command requires. */
  require(name: string): string;
  flag(option: string): boolean;
  /** The values of a last positional that ends with `...`. */
  rest: readonly string[];
  /** Whether this run changes nothing: the command never does, or it is a dry run. */
  isReading: boolean;
  /** Builds another command line for the same data folder, to be copied into a shell. */
  command(words: string, ...args: string[]): string;
  environment: Readonly<Record<string, string | undefined>>;
  terminal: Terminal;
}

/** Options that several commands share. */
export const DATA_OPTION: Option = {
  value: "FOLDER",
  about: "the data folder (MODEL_GATEWAY_DATA, ./data)",
};
export const JSON_OPTION: Option = { about: "print JSON" };
const HELP_OPTION: Option = { about: "show this help" };

/** Ends a command with an error message instead of a stack trace. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly hint: string | null;
  readonly exitCode: number;
  constructor(message: string, hint: string | null, exitCode: number) {
    super(message);
    this.hint = hint;
    this.exitCode = exitCode;
  }
}

export function fail(message: string, hint: string | null = null): never {
  throw new Failure(message, hint, 1);
}

/** Fails because the command line itself is wrong. */
export function misuse(message: string, hint: string): never {
  throw new Failure(message, hint, 2);
}

/** Reads options and positional values, and rejects an option that the command does not have. */
function readArguments(
  command: Command,
  args: readonly string[],
  help: string,
): { values: Map<string, string | true>; positionals: string[] } {
  const options: Command["options"] = { ...command.options, help: HELP_OPTION };
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(options).map(([name, option]) => [
        name,
        { type: option.value === undefined ? "boolean" : "string" },
      ]),
    ),
    // Lenient here and validated below, so that errors can name the command and suggest the nearest spelling.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string | true>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
    if (option === undefined) {
      const close = nearestName(token.name, Object.keys(options));
      misuse(`Unknown option ${token.rawName}.${close === null ? "" : ` Did you mean --${close}?`}`, help);
    }
    if (option.value === undefined && token.value !== undefined)
      misuse(`${token.rawName} takes no value.`, help);
    if (option.value !== undefined && (token.value === undefined || token.value === "")) {
      misuse(`${token.rawName} needs a value: ${token.rawName} ${option.value}`, help);
    }
    if (option.value !== undefined && values.has(token.name)) {
      misuse(`${token.rawName} is set twice.`, help);
    }
    values.set(token.name, token.value ?? true);
  }
  return { values, positionals };
}

export async function runCommand(
  command: Command,
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  terminal: Terminal,
): Promise<number> {
  const help = `See: ${PROGRAM} ${command.words} --help`;
  const { values, positionals } = readArguments(command, args, help);
  if (values.has("help")) {
    terminal.print(helpText(command));
    return 0;
  }
  const expected = command.positionals ?? [];
  const takesMore = expected.at(-1)?.includes("...") === true;
  const rest = takesMore ? positionals.slice(expected.length - 1) : [];
  if (!takesMore && positionals.length > expected.length) {
    misuse(`Unexpected argument "${positionals[expected.length]}".`, help);
  }
  expected.forEach((name, i) => {
    const value = positionals[i];
    if (value !== undefined) values.set(name.replace(/^\[|\]$/g, ""), value);
    else if (!name.startsWith("[")) misuse(`${name} is missing.`, help);
  });
  for (const [name, option] of Object.entries(command.options)) {
    if (option.required && !values.has(name)) misuse(`--${name} ${option.value ?? ""} is missing.`, help);
  }
  const text = (name: string) => {
    const value = values.get(name);
    return typeof value === "string" ? value : undefined;
  };
  const exitCode = await command.run({
    text,
    require: (name) => text(name) ?? misuse(`${name} is missing.`, help),
    flag: (name) => values.get(name) === true,
    rest,
    isReading: command.changes === "nothing" || values.has("dry-run"),
    command: (words, ...args) => commandText(words, args, text("data")),
    environment,
    terminal,
  });
  return exitCode ?? 0;
}

export function commandText(words: string, args: readonly string[], data: string | undefined): string {
  const where = data === undefined ? [] : ["--data", data];
  return [PROGRAM, words, ...[...args, ...where].map(shellWord)].join(" ");
}

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function helpText(command: Command): string {
  const entries = Object.entries({ ...command.options, help: HELP_OPTION });
  const form = (name: string, option: Option) => `--${name}${option.value ? ` ${option.value}` : ""}`;
  const width = Math.max(...entries.map(([name, option]) => form(name, option).length));
  const required = entries
    .filter(([, option]) => option.required)
    .map(([name, option]) => form(name, option));
  const usage = [PROGRAM, command.words, ...(command.positionals ?? []), ...required, "[options]"];
  return [
    `${command.summary}.`,
    "",
    `Usage: ${usage.join(" ")}`,
    ...(command.about === undefined ? [] : ["", command.about]),
    "",
    `Changes: ${EFFECTS[command.changes]}.`,
    "",
    "Options:",
    ...entries.map(([name, option]) => `  ${form(name, option).padEnd(width)}  ${option.about}`),
  ].join("\n");
}
