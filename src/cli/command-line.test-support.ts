/** The command line as an operator uses it: each command a process of its own, in a folder that goes away again. */

import { afterEach, beforeEach, expect, setDefaultTimeout } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Finished, finished } from "../../test/support/finished.ts";

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");

export interface CommandLine {
  /** Of the test that runs. */
  folder(): string;
  run(...args: string[]): Promise<Finished>;
  /** What it printed; fails if the command did. */
  done(...args: string[]): Promise<string>;
  /** Why it refused; fails if it did not. */
  refused(...args: string[]): Promise<string>;
  /** What it prints with `--json`. */
  json(...args: string[]): Promise<ReturnType<typeof JSON.parse>>;
}

/** For a whole test file. With `file`, every test begins with an installation that it was applied to. */
export function openCommandLine(file?: string): CommandLine {
  // The machine may be busy, and a command is a process.
  setDefaultTimeout(120_000);
  let folder = "";

  function run(...args: string[]): Promise<Finished> {
    const env = { PATH: process.env.PATH ?? "" };
    return finished(Bun.spawn([LAUNCHER, ...args], { cwd: folder, env, stdout: "pipe", stderr: "pipe" }));
  }

  async function done(...args: string[]): Promise<string> {
    const { code, out, err } = await run(...args);
    if (code !== 0) throw new Error(err);
    return out;
  }

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "model-gateway-cli-"));
    if (file === undefined) return;
    writeFileSync(join(folder, "gateway.yaml"), file);
    await done("apply", "gateway.yaml");
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  return {
    folder: () => folder,
    run,
    done,
    async refused(...args) {
      const { code, err } = await run(...args);
      expect(code).toBeGreaterThan(0);
      expect(err).not.toContain("unexpected");
      return err;
    },
    json: async (...args) => JSON.parse(await done(...args, "--json")),
  };
}
