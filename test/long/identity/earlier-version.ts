/** The version of the program before auditors, service accounts and company sign-in, from the history of this repository. */

import { mkdirSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { readProcessResult } from "../../support/process-result.ts";

const PROGRAM = resolve(import.meta.dir, "../../..");
const FIRST_IDENTITY_MIGRATION = "src/store/migrations/0003-auditor.sql";

/** Writes it into a new folder and returns the commit. */
export async function extractEarlierVersion(folder: string): Promise<string> {
  const log = ["git", "log", "--diff-filter=A", "--format=%P", "--", FIRST_IDENTITY_MIGRATION];
  const commit = (await run(log)).trim().split("\n").at(-1) ?? "";
  if (commit === "") throw new Error("The history of the repository is needed.");
  mkdirSync(folder);
  const archive = join(folder, "source.tar");
  await run(["git", "archive", `--output=${archive}`, commit, "src", "simulator", "bin", "package.json"]);
  await run(["tar", "-xf", archive, "-C", folder]);
  symlinkSync(join(PROGRAM, "node_modules"), join(folder, "node_modules"));
  return commit.slice(0, 8);
}

async function run(command: readonly string[]): Promise<string> {
  const child = Bun.spawn([...command], { cwd: PROGRAM, stdout: "pipe", stderr: "pipe" });
  const { code, out, err } = await readProcessResult(child);
  if (code !== 0) throw new Error(`${command.join(" ")}: ${err}`);
  return out;
}
