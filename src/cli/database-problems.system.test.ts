/** What operators read when PostgreSQL rejects the gateway: the words of the server, what to do, and no password. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../test/support/gateway-process.ts";
import { PostgresServer } from "../../test/support/postgres-server.ts";
import { Standby } from "../../test/support/standby.ts";

setDefaultTimeout(60_000);

const PASSWORD = "pass-canary-5e1d";
const folder = mkdtempSync(join(tmpdir(), "model-gateway-problems-"));
let primary: PostgresServer;
let standby: Standby;

beforeAll(async () => {
  primary = await PostgresServer.create();
  await primary.run("CREATE ROLE gateway LOGIN PASSWORD 'another'");
  await primary.run("CREATE ROLE full_up LOGIN CONNECTION LIMIT 0");
  standby = await Standby.start(primary);
  primary.writeFile(
    "pg_hba.conf",
    "host all gateway 127.0.0.1/32 scram-sha-256\nhostssl all tls_only 127.0.0.1/32 trust\nhost all postgres,full_up 127.0.0.1/32 trust\n",
  );
  await primary.run("SELECT pg_reload_conf()");
}, 300_000);

afterAll(async () => {
  await standby?.server.remove();
  await primary?.remove();
  rmSync(folder, { recursive: true, force: true });
});

const urlAs = (user: string, more: { database?: string; port?: number; query?: string } = {}) =>
  `postgres://${user}:${PASSWORD}@127.0.0.1:${more.port ?? primary.port}/${more.database ?? "postgres"}${more.query ?? ""}`;

describe.each([
  ["a wrong password", () => urlAs("gateway"), "password authentication failed", "the password"],
  [
    "an unknown database",
    () => urlAs("postgres", { database: "missing" }),
    'database "missing" does not exist',
    "Create the database",
  ],
  ["no free connection", () => urlAs("full_up"), "too many connections for role", "Raise max_connections"],
  ["a server that requires TLS", () => urlAs("tls_only"), "no encryption", "?sslmode=require"],
  [
    "a server without TLS",
    () => urlAs("postgres", { query: "?sslmode=require" }),
    "does not support SSL",
    "Enable TLS",
  ],
  [
    "a server that is not there",
    () => urlAs("postgres", { port: 1 }),
    "Failed to connect",
    "host and the port",
  ],
  [
    "a password that is not encoded",
    () => `postgres://gateway:${PASSWORD}#/x@127.0.0.1/db`,
    "Invalid URL",
    "write @ as %40",
  ],
])("%s", (_, findUrl, words, todo) => {
  test.each(["start", "doctor", "users list"])("in %s", async (command) => {
    const { code, output } = await runCommand(command.split(" "), {
      folder,
      env: { DATABASE_URL: findUrl(), PORT: "0" },
    });
    expect([code, output]).toEqual([1, expect.stringContaining(words)]);
    expect(output).toContain(todo);
    expect(output).not.toContain(PASSWORD);
  });
});

test("a read-only standby is named by start and doctor", async () => {
  const env = { DATABASE_URL: standby.server.url(), PORT: "0" };
  const started = await runCommand(["start"], { folder, env });
  expect([started.code, started.output]).toEqual([1, expect.stringContaining("read-only transaction")]);
  expect(started.output).toContain("Use the address of the primary");
  expect((await runCommand(["doctor"], { folder, env })).output).toContain("the server is a standby");
});
