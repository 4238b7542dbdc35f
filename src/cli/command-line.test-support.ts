/** The command line for tests: each command is a separate process, in a temporary folder. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type ProcessResult, readProcessResult } from "../../test/support/process-result.ts";

export const PROGRAM_FILE = resolve(import.meta.dir, "../../bin/model-gateway");

export interface CommandLine {
  /** The folder of the running test. */
  folder(): string;
  run(...args: string[]): Promise<ProcessResult>;
  /** Returns the output; fails if the command failed. */
  runOk(...args: string[]): Promise<string>;
  /** Returns the error output; fails if the command succeeded. */
  runFailing(...args: string[]): Promise<string>;
  /** Returns the parsed output of `--json`. */
  json(...args: string[]): Promise<ReturnType<typeof JSON.parse>>;
}

/** For a whole test file. With `file`, every test starts with a copy of an installation that the file was applied to. */
export function openCommandLine(file?: string): CommandLine {
  // A command is a separate process, and the machine may be busy.
  setDefaultTimeout(120_000);
  let folder = "";
  let installed = "";

  function run(...args: string[]): Promise<ProcessResult> {
    const env = { PATH: process.env.PATH ?? "" };
    return readProcessResult(
      Bun.spawn([PROGRAM_FILE, ...args], { cwd: folder, env, stdout: "pipe", stderr: "pipe" }),
    );
  }

  async function runOk(...args: string[]): Promise<string> {
    const { code, out, err } = await run(...args);
    if (code !== 0) throw new Error(err);
    return out;
  }

  const createFolder = () => mkdtempSync(join(tmpdir(), "model-gateway-cli-"));

  beforeAll(async () => {
    installed = folder = createFolder();
    if (file === undefined) return;
    writeFileSync(join(folder, "gateway.yaml"), file);
    await runOk("apply", "gateway.yaml");
  });
  beforeEach(() => {
    folder = createFolder();
    cpSync(installed, folder, { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true }));
  afterAll(() => rmSync(installed, { recursive: true }));

  return {
    folder: () => folder,
    run,
    runOk,
    async runFailing(...args) {
      const { code, err } = await run(...args);
      expect(code).toBeGreaterThan(0);
      expect(err).not.toContain("unexpected");
      return err;
    },
    json: async (...args) => JSON.parse(await runOk(...args, "--json")),
  };
}
