/** Commands on a PostgreSQL database. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../test/support/gateway-process.ts";
import { type Postgres, startPostgres } from "../../test/support/postgres.ts";

// Every command is a separate process, and the machine may be busy.
setDefaultTimeout(120_000);

const FILE = `
models: [{ id: fast, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator }]
groups: [{ name: default, models: [fast], accounts: [sim] }, { name: other }]
users: [{ email: ops@example.com, role: admin }]
keys: [{ name: ci, user: ops@example.com, group: default }]
`;

const folder = mkdtempSync(join(tmpdir(), "model-gateway-cli-"));
let postgres: Postgres;
let env: Record<string, string>;

beforeAll(async () => {
  postgres = await startPostgres();
  env = { DATABASE_URL: postgres.url };
});

afterAll(async () => {
  await postgres.stop();
  rmSync(folder, { recursive: true });
});

test("an empty database is no installation", async () => {
  const options = {
    folder,
    env: { ...env, MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 1).toString("base64") },
  };
  expect(await runCommand(["audit"], options)).toMatchObject({
    code: 1,
    output: expect.stringContaining("The database is empty."),
  });
  expect(await runCommand(["keys", "list"], options)).toMatchObject({ code: 1 });
});

test("apply, export and doctor work the same with DATABASE_URL", async () => {
  writeFileSync(join(folder, "gateway.yaml"), FILE);
  expect((await runCommand(["apply", "gateway.yaml"], { folder, env })).code).toBe(0);
  const { output } = await runCommand(["export"], { folder, env });
  writeFileSync(join(folder, "exported.yaml"), output);
  const again = await runCommand(["apply", "exported.yaml", "--prune"], { folder, env });
  expect(again.output).toStartWith("No changes");
  expect((await runCommand(["doctor"], { folder, env })).output).toContain("PostgreSQL, schema");
  expect(existsSync(join(folder, "data/gateway.db"))).toBe(false);
});
