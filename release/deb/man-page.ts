/** The manual page model-gateway(1), generated from the table of commands. The Debian package installs it. */

import { type Command, EFFECTS } from "../../src/cli/command.ts";

export function manPage(
  commands: readonly Command[],
  { version, date }: { version: string; date: string },
): string {
  return [
    `.TH MODEL-GATEWAY 1 "${date}" "Model Gateway ${escapeText(version)}" "User Commands"`,
    ".SH NAME",
    "model-gateway \\- gateway for the APIs of large language models",
    ".SH SYNOPSIS",
    ".B model-gateway",
    ".I COMMAND",
    "[options]",
    ".SH DESCRIPTION",
    "Serves the APIs of OpenAI, Anthropic and Google with one API key, and forwards requests to upstream accounts.",
    "The database is SQLite in the data folder, unless DATABASE_URL is set.",
    ".SH COMMANDS",
    ...commands.flatMap(describeCommand),
    ".SH ENVIRONMENT",
    ...describe("MODEL_GATEWAY_DATA", "The data folder."),
    ...describe("DATABASE_URL", "The database: sqlite:/path or postgres://user:password@host/database."),
    ...describe("MODEL_GATEWAY_MASTER_KEY", "The master key, if it is not in the data folder."),
    ".SH FILES",
    ...describe("/etc/model-gateway/gateway.yaml", "The configuration of the Debian package."),
    ...describe("/var/lib/model-gateway", "The data folder of the Debian package."),
    ".SH EXIT STATUS",
    "0 for success, 1 for a failure, 2 for a wrong command line.",
    "",
  ].join("\n");
}

function describeCommand(command: Command): string[] {
  const usage = [command.words, ...(command.positionals ?? [])].join(" ");
  return [
    `.SS ${escapeText(usage)}`,
    escapeLine(`${command.summary}. Changes: ${EFFECTS[command.changes]}.`),
    ...(command.about === undefined ? [] : [".PP", ...command.about.split("\n").map(escapeLine)]),
    ...Object.entries(command.options).flatMap(([name, { value, about }]) =>
      describe(`--${name}${value === undefined ? "" : ` ${value}`}`, about),
    ),
  ];
}

function describe(term: string, text: string): string[] {
  return [".TP", `.B ${escapeText(term)}`, escapeLine(text)];
}

function escapeText(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-");
}

/** A line that begins with a dot or an apostrophe would be a request of the formatter. */
function escapeLine(text: string): string {
  const escaped = escapeText(text);
  if (escaped === "") return ".PP";
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}
