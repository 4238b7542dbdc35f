/**
 * Delivers new secrets: to a terminal, or to a file that only its owner can read. Other output may be a pipe into a log
 * with other readers, so a command prints a secret there only on explicit request.
 */

import { closeSync, existsSync, fchmodSync, statSync, writeFileSync, writeSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { openPrivateFile } from "../base/private-file.ts";
import type { Settings } from "../config/installation/environment.ts";
import { fail, type Input, misuse, type Option } from "./command.ts";

export const SECRET_OPTIONS: Readonly<Record<string, Option>> = {
  "secret-file": { value: "FILE", about: "write the secret to this new file, readable only by you" },
  "print-secret": { about: "print the secret even if the output is not a terminal" },
};

/** For the help of these commands. */
export const SECRET_RULE =
  "The secret is printed to a terminal only. If the output is a pipe or a file, the secret is written to a file in the data folder, readable only by you, or to the file of --secret-file.";

/** Files in the data folder for secrets that may not be printed. */
const DEFAULT_FILES = {
  keys: "new-keys",
  codes: "new-codes",
  links: "new-links",
  tokens: "new-tokens",
} as const;
type SecretKind = keyof typeof DEFAULT_FILES;

/** Where the secrets of a command go. Decided before it creates any, so that none is lost. */
export type SecretTarget = { kind: "print" } | { kind: "append" | "create"; file: string };

export function chooseSecretTarget(
  input: Input,
  { dataDir }: Pick<Settings, "dataDir">,
  secrets: SecretKind,
): SecretTarget {
  const chosen = input.text("secret-file");
  const isPrinted = input.flag("print-secret");
  if (chosen !== undefined && isPrinted)
    misuse("--secret-file and --print-secret cannot be combined.", "A secret has one destination.");
  if (chosen !== undefined) return { kind: "create", file: requireNewFile(resolve(chosen)) };
  return isPrinted || input.terminal.isInteractive
    ? { kind: "print" }
    : { kind: "append", file: join(dataDir, DEFAULT_FILES[secrets]) };
}

function requireNewFile(file: string): string {
  if (existsSync(file)) fail(`${file} already exists.`, "Choose a file that does not exist.");
  if (!statSync(dirname(file), { throwIfNoEntry: false })?.isDirectory())
    fail(`The folder of ${file} does not exist.`);
  return file;
}

interface NamedSecret {
  /** Null if the secret explains itself. */
  readonly name: string | null;
  readonly secret: string;
}

/**
 * Returns the file with the secrets, or null if the command has to print them. A single secret is alone in the file of
 * `--secret-file`, so that another program can read it.
 */
export function storeSecrets(target: SecretTarget, secrets: readonly NamedSecret[]): string | null {
  if (target.kind === "print" || secrets.length === 0) return null;
  const { file } = target;
  const isAlone = target.kind === "create" && secrets.length === 1;
  const text = secrets
    .map(({ name, secret }) => `${name === null || isAlone ? "" : `${name}  `}${secret}\n`)
    .join("");
  if (target.kind === "create") writeFileSync(file, text, { mode: 0o600, flag: "wx" });
  else {
    const handle = openPrivateFile(file, "a");
    // The file may exist with another mode.
    fchmodSync(handle, 0o600);
    writeSync(handle, text);
    closeSync(handle);
  }
  return file;
}

/** The sentence for an operator about a file with secrets. Only those in the data folder are on their way elsewhere. */
export function secretFileText(file: string): string {
  const isDefault = Object.values<string>(DEFAULT_FILES).includes(basename(file));
  return `${file}, readable only by you.${isDefault ? " Copy it to a safe place and delete the file." : ""}`;
}
