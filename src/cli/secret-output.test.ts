/** New secrets reach a terminal or a private file, and never a pipe by default. */

import { expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { openCommandLine, PROGRAM_FILE } from "./command-line.test-support.ts";

const { folder, run, runOk, runFailing, json } = openCommandLine(`
models: [{ id: m, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator, models: { m: sim-fast } }]
groups: [{ name: default, interfaces: [chat], models: [m], accounts: [sim] }]
users: [{ email: ada@example.com }]
`);

const CREATE = ["keys", "create", "--group", "default", "--name"];
/** The last form is a code. Ids also have groups of four digits, but after a hyphen. */
const SECRET = /gwk_\w+|gwp_\w+|#\w{20,}|(?<![\w-])[0-9A-Z]{4}-[0-9A-Z]{4}-/;

test("a command that creates a secret names a private file if its output is a pipe", async () => {
  const commands = {
    "new-keys": [...CREATE, "ci"],
    "new-codes": ["codes", "create", "--usd", "1"],
    "new-tokens": ["tokens", "create", "--name", "ci", "--user", "ada@example.com"],
    "new-links": ["admin", "link", "--email", "ada@example.com"],
  };
  for (const [name, args] of Object.entries(commands)) {
    const { code, out, err } = await run(...args);
    const file = join(folder(), "data", name);
    const advice = `${file}, readable only by you. Copy it to a safe place and delete the file.`;
    expect([code, out + err]).toEqual([0, expect.stringContaining(advice)]);
    expect(out + err).not.toMatch(SECRET);
    expect(readFileSync(file, "utf8")).toMatch(SECRET);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  }
  const other = await json(...CREATE, "other");
  expect(other).toMatchObject({ secret_file: join(folder(), "data/new-keys") });
  expect(Object.keys(other)).not.toContain("secret");
});

test("--secret-file creates the file, --print-secret prints, and a file that exists creates no key", async () => {
  const file = join(folder(), "ci.key");
  const created = await runOk(...CREATE, "ci", "--secret-file", "ci.key");
  expect(created).not.toMatch(SECRET);
  // Another program reads this file: it stays.
  expect(created).not.toContain("delete the file");
  expect(readFileSync(file, "utf8")).toMatch(/^gwk_\w+\n$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(await runFailing(...CREATE, "two", "--secret-file", "ci.key")).toContain("already exists");
  expect(await runFailing(...CREATE, "two", "--secret-file", "no/ci.key")).toContain("does not exist");
  expect(await json("keys", "list")).toHaveLength(1);
  expect(await runOk(...CREATE, "two", "--print-secret")).toMatch(SECRET);
  expect(existsSync(join(folder(), "data/new-keys"))).toBe(false);
});

test("a terminal shows the secret, and no file has it", async () => {
  const line = `${PROGRAM_FILE} ${CREATE.join(" ")} ci`;
  const typed = Bun.spawn(["script", "--quiet", "--return", "--command", line, "/dev/null"], {
    cwd: folder(),
    env: { PATH: process.env.PATH ?? "", TERM: "dumb" },
    stdout: "pipe",
  });
  expect(await new Response(typed.stdout).text()).toMatch(SECRET);
  expect(await typed.exited).toBe(0);
  expect(existsSync(join(folder(), "data/new-keys"))).toBe(false);
});
