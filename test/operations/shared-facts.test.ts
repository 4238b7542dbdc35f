/** What two gateway processes on one PostgreSQL database know of each other: keys, account health, throttles. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readSettings } from "../../src/config/installation/environment.ts";
import { type Installation, openInstallation } from "../../src/config/installation/installation.ts";
import { listKeys, revokeKey } from "../../src/store/policy/keys.ts";
import { openConsoleClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";

setDefaultTimeout(60_000);

/** Within this time each node must know what another one has found out. */
const KNOWN_WITHIN_MS = 200;
const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
const ACCOUNTS = ["parked", "resumed", "limited", "quota", "local", "unreachable"];
const KEYS = ["k0", "k1", "k2", "k3", "k4", "main"];
const createSecret = (name: string) => `key-${name}-0123456789-0123456789-0123456789`;

const folder = mkdtempSync(join(tmpdir(), "model-gateway-facts-"));
let postgres: Postgres;
let installation: Installation;
let nodes: GatewayProcess[] = [];
let admins: SignedInClient[] = [];
/** How the upstream responds to each account, by its credential. */
const responses = new Map<string, () => Response>();
const calls = new Map<string, number>();

const upstream = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const credential = request.headers.get("authorization")?.replace("Bearer ", "") ?? "";
    calls.set(credential, (calls.get(credential) ?? 0) + 1);
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];
    return (
      responses.get(credential)?.() ??
      Response.json({ id: "c", object: "chat.completion", created: 1, model: "up", choices, usage })
    );
  },
});

const fail = (status: number, code: string, headers: Record<string, string> = {}) =>
  Response.json({ error: { message: "no", type: "error", code } }, { status, headers });

function configuration(): string {
  const address = `http://127.0.0.1:${upstream.port}/v1`;
  return JSON.stringify({
    models: ACCOUNTS.map((id) => ({ id, interfaces: ["chat"] })),
    accounts: ACCOUNTS.map((name) => ({
      name,
      kind: "openai",
      // Nothing listens on port 1.
      base_url: name === "unreachable" ? "http://127.0.0.1:1/v1" : address,
      credential: `credential-${name}`,
      private_network: true,
      models: { [name]: "up" },
    })),
    groups: [
      {
        name: "default",
        interfaces: ["chat"],
        models: ACCOUNTS,
        accounts: ACCOUNTS,
        queue: { max_waiting: 0 },
      },
    ],
    users: [{ email: "dev@example.com" }],
    keys: KEYS.map((name) => ({
      name,
      user: "dev@example.com",
      group: "default",
      secret: createSecret(name),
    })),
  });
}

beforeAll(async () => {
  postgres = await startPostgres();
  const env = { DATABASE_URL: postgres.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY, DRAIN_DELAY: "0s" };
  for (const name of ["one", "two"]) {
    const nodeFolder = join(folder, name);
    mkdirSync(nodeFolder);
    await Bun.write(join(nodeFolder, "gateway.yaml"), configuration());
    nodes.push(await startGatewayProcess({ folder: nodeFolder, args: ["--config", "gateway.yaml"], env }));
  }
  const settings = readSettings({ flags: { data: join(folder, "test") }, environment: env });
  if (!settings.ok) throw new Error(settings.problems.join());
  installation = await openInstallation(settings.settings, env);
  for (const { url } of nodes)
    admins.push(await signInAs({ url, installation }, "root@example.com", "admin"));
}, 300_000);

afterAll(async () => {
  for (const node of nodes) await node.stop();
  nodes = [];
  admins = [];
  await installation?.db.close();
  await postgres?.stop();
  await upstream.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

async function call(
  node: GatewayProcess | undefined,
  model: string,
  key = createSecret("main"),
): Promise<number> {
  const response = await fetch(`${node?.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

async function readState(admin: SignedInClient | undefined, name: string): Promise<string> {
  const account = await admin?.call("admin.accounts.get", { params: { name } });
  return account?.facts.state ?? "";
}

/** Milliseconds until the node responds to a request for the model with this status. */
async function measureStatus(
  node: GatewayProcess | undefined,
  model: string,
  status: number,
): Promise<number> {
  const startedMs = performance.now();
  await eventually(async () => (await call(node, model)) === status);
  return performance.now() - startedMs;
}

/** What the calls of one measurement take on this machine now, whatever else runs on it. */
async function measureCalls(): Promise<number> {
  const takenMs: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    const startedMs = performance.now();
    // The first call may still be served, and a second one is not.
    for (let sent = 0; sent < 2; sent += 1) await Promise.all(nodes.map((node) => call(node, "local")));
    takenMs.push(performance.now() - startedMs);
  }
  return Math.max(...takenMs);
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

test("a revoked key is refused by every node at once", async () => {
  const keys = await listKeys(installation.db);
  const takenMs: number[] = [];
  for (const name of KEYS.slice(0, 5)) {
    for (const node of nodes) expect(await call(node, "local", createSecret(name))).toBe(200);
    const id = keys.find((key) => key.name === name)?.id ?? "";
    await revokeKey(installation.db, id, Date.now());
    const startedMs = performance.now();
    const refused = nodes.map((node) =>
      eventually(() => call(node, "local", createSecret(name)), { equals: 401 }),
    );
    await Promise.all(refused);
    takenMs.push(performance.now() - startedMs);
  }
  // Without notifications half of them would take longer than a quarter of a second.
  expect(median(takenMs)).toBeLessThan(KNOWN_WITHIN_MS + (await measureCalls()));
});

test("an account whose credential one node saw rejected is used by no node", async () => {
  responses.set("credential-parked", () => fail(401, "invalid_api_key"));
  await call(nodes[0], "parked");
  await eventually(() => readState(admins[1], "parked"), { equals: "parked" });
  const before = calls.get("credential-parked");
  for (const node of nodes) await call(node, "parked");
  expect(calls.get("credential-parked")).toBe(before ?? 0);
});

test("an account that an administrator resumes on one node is used by all", async () => {
  responses.delete("credential-parked");
  await admins[1]?.call("admin.accounts.act", { params: { name: "parked" }, body: { action: "unpark" } });
  await eventually(async () => (await readState(admins[0], "parked")) !== "parked");
  for (const node of nodes) expect(await call(node, "parked")).toBe(200);
});

test("an account that an administrator parks on one node is used by none, at once", async () => {
  const act = (action: "park" | "unpark") =>
    admins[0]?.call("admin.accounts.act", { params: { name: "resumed" }, body: { action } });
  const takenMs: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    await act("park");
    takenMs.push(await measureStatus(nodes[1], "resumed", 503));
    await act("unpark");
    takenMs.push(await measureStatus(nodes[1], "resumed", 200));
  }
  expect(median(takenMs)).toBeLessThan(KNOWN_WITHIN_MS + (await measureCalls()));
});

test("rate limits and exhausted quotas of an account hold on all nodes until their time", async () => {
  responses.set("credential-limited", () => fail(429, "rate_limit_exceeded", { "retry-after": "30" }));
  responses.set("credential-quota", () => fail(429, "insufficient_quota"));
  for (const model of ["limited", "quota"]) {
    await call(nodes[0], model);
    const before = calls.get(`credential-${model}`) ?? 0;
    await eventually(async () => {
      const known = calls.get(`credential-${model}`) ?? 0;
      await call(nodes[1], model);
      return calls.get(`credential-${model}`) === known;
    });
    // At most the calls of the first 200 ms.
    expect((calls.get(`credential-${model}`) ?? 0) - before).toBeLessThanOrEqual(3);
  }
});

test("connections that fail on one node do not affect the others", async () => {
  for (let i = 0; i < 4; i += 1) await call(nodes[0], "unreachable");
  expect(await readState(admins[0], "unreachable")).toBe("cooling");
  // Longer than the exchange takes.
  await Bun.sleep(KNOWN_WITHIN_MS);
  expect(await readState(admins[1], "unreachable")).toBe("untried");
});

test("invalid keys from one address count on all nodes together", async () => {
  const tryKey = (node: GatewayProcess | undefined) =>
    call(node, "local", "wrong-0123456789-0123456789-0123456789");
  let tries = 0;
  while ((await tryKey(nodes[0])) === 401) tries += 1;
  expect(tries).toBeLessThanOrEqual(20);
  // Each node writes and reads counts a few times a second. Alone, the second one would allow as many tries again.
  let triesThere = 0;
  await eventually(async () => {
    await Bun.sleep(500);
    triesThere += 1;
    return (await tryKey(nodes[1])) === 429;
  });
  expect(triesThere).toBeLessThan(tries);
});

test("wrong passwords for one account count on all nodes together", async () => {
  const attempt = async (node: GatewayProcess | undefined) => {
    const url = node?.url ?? "";
    const body = { email: "root@example.com", password: "wrong-wrong-wrong" };
    const { code } = await openConsoleClient(url, { origin: url }).callRejected("session.create", { body });
    return code;
  };
  for (let i = 0; i < 7; i += 1) expect(await attempt(nodes[0])).toBe("wrong_credentials");
  // Each node writes and reads counts a few times a second.
  await Bun.sleep(1_000);
  const codes: string[] = [];
  for (let i = 0; i < 5; i += 1) codes.push(await attempt(nodes[1]));
  expect(codes.slice(0, 3)).toEqual(Array(3).fill("wrong_credentials"));
  expect(codes.slice(3)).toEqual(Array(2).fill("rate_limit_exceeded"));
  const rows = await installation.db.sql`SELECT name, subject FROM throttle_use`;
  expect(rows.map(({ name }) => name)).toContain("bad_key");
  expect(JSON.stringify(rows)).not.toContain("root@example.com");
});
