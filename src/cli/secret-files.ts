/**
 * Secrets from files: `${file:PATH}` in gateway.yaml, and the variables that may be named with `_FILE`. systemd
 * (`LoadCredential=`), Docker and Kubernetes provide secrets this way, so they appear in no environment.
 */

import { closeSync, openSync, readSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fail } from "./command.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const BYTES_MAX = 64 * 1024;
const NAMED_FILE = /(?<!\$)\$\{file:([^}]+)\}/g;
const SECRET_VARIABLES = ["DATABASE_URL", "MODEL_GATEWAY_MASTER_KEY"];

/**
 * The content of each file that a configuration names, under `file:PATH`. A relative path is in the credentials folder
 * of systemd if there is one, otherwise in the folder of the configuration. Files that cannot be read are left out: the
 * parser reports them with their line.
 */
export function readNamedFiles(
  text: string,
  { fileName, environment }: { fileName: string; environment: Environment },
): Record<string, string> {
  const folder = environment.CREDENTIALS_DIRECTORY || dirname(fileName);
  const paths = new Set([...text.matchAll(NAMED_FILE)].map(([, path = ""]) => path));
  return Object.fromEntries(
    [...paths].flatMap((path) => {
      const content = readSecret(resolve(folder, path));
      return content === null ? [] : [[`file:${path}`, content]];
    }),
  );
}

/** Adds DATABASE_URL from the file of DATABASE_URL_FILE, and so on. The variable itself takes precedence. */
export function readVariableFiles(environment: Environment): Environment {
  const added = SECRET_VARIABLES.flatMap((name) => {
    const file = environment[`${name}_FILE`];
    if (environment[name] || !file) return [];
    const content = readSecret(resolve(environment.CREDENTIALS_DIRECTORY || "", file));
    if (content === null)
      fail(
        `The file of ${name}_FILE cannot be read.`,
        "Check that it exists, is not empty, and is readable.",
      );
    return [[name, content] as const];
  });
  return added.length === 0 ? environment : { ...environment, ...Object.fromEntries(added) };
}

/** Without the line break that editors add. Null if the file is missing, empty, too long or not readable. */
function readSecret(path: string): string | null {
  try {
    const file = openSync(path, "r");
    try {
      const bytes = Buffer.alloc(BYTES_MAX + 1);
      const length = readSync(file, bytes);
      const text = bytes.toString("utf8", 0, length).replace(/\r?\n$/, "");
      return length > BYTES_MAX || text === "" ? null : text;
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
}
