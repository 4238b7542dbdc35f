/** Variables from a file that is read again at every start: `MODEL_GATEWAY_ENVIRONMENT_FILE`. */

import { readFileSync } from "node:fs";
import { fail } from "./command.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const VARIABLE = "MODEL_GATEWAY_ENVIRONMENT_FILE";

/**
 * The variables of the file take precedence: a process that a supervisor starts inherits the environment of the
 * supervisor's start, and the file may have changed since.
 */
export function readEnvironmentFile(environment: Environment): Environment {
  const path = environment[VARIABLE];
  if (!path) return environment;
  try {
    return { ...environment, ...parseEnvironmentFile(readFileSync(path, "utf8")) };
  } catch {
    return fail(`The file of ${VARIABLE} cannot be read: ${path}`, "Check that it exists and is readable.");
  }
}

const LINE = /^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/;

/** As `EnvironmentFile=` of systemd: one assignment a line, comments only at the beginning of a line, quotes optional. */
export function parseEnvironmentFile(text: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const [, name, value = ""] = LINE.exec(line) ?? [];
    if (name !== undefined) variables[name] = unquote(value);
  }
  return variables;
}

function unquote(value: string): string {
  const quoted = /^(["'])(.*)\1$/s.exec(value);
  if (quoted === null) return value;
  const [, quote, content = ""] = quoted;
  return quote === '"' ? content.replaceAll(/\\(["\\$`])/g, "$1") : content;
}
