/** The real process: its billing data survives restarts and can be verified. */

import { Database } from "bun:sqlite";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { PAYER, type PaidSetup, paidFile, SIMULATOR } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

let folder: string;
let upstream: Simulator;
let gateway: GatewayProcess | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-books-"));
  upstream = startSimulator({ tokens: "o200k", record: "full" });
});

afterEach(async () => {
  await gateway?.stop();
  gateway = null;
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

const env = () => ({ SIMULATOR_URL: upstream.url });

async function start(setup: PaidSetup): Promise<void> {
  await Bun.write(join(folder, "gateway.yaml"), paidFile(setup));
  await restart();
}

async function restart(): Promise<void> {
  if (gateway !== null) expect(await gateway.stop()).toBe(0);
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"], env: env() });
}

const run = (...args: string[]) => runCommand(args, { folder, env: env() });

function call(path: string, body?: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${gateway?.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

const messages = [{ role: "user", content: "Hello" }];
const openStore = (readonly: boolean) => new Database(join(folder, "data", "gateway.db"), { readonly });

interface Report {
  billing: { balance: string; held: string };
  usage: { total: { charged: string; requests: number } };
}
const usage = async () => (await (await call("/v1/usage")).json()) as Report;

const SETUP: PaidSetup = {
  balance: "1.00",
  models: { paid: "sim-fast", slow: "sim-fast@events=400,interval=10ms", broken: "fault/500" },
};

async function someTraffic(): Promise<void> {
  for (const stream of [false, true]) {
    await (await call("/v1/chat/completions", { model: "paid", messages, stream })).text();
    await (await call("/v1/responses", { model: "paid", input: "Hello", stream })).text();
    await (await call("/v1/chat/completions", { model: "broken", messages, stream })).text();
    await (await call("/v1/chat/completions", { model: "nothing", messages, stream })).text();
  }
  const leaving = new AbortController();
  const left = await fetch(`${gateway?.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "slow", input: "Hello", stream: true }),
    signal: leaving.signal,
  });
  await left.body?.getReader().read();
  leaving.abort();
  await eventually(async () => (await usage()).billing.held, { equals: "0.00" });
}

describe("a client that sees the end", () => {
  const READ_ROW =
    "SELECT charged_nano, (SELECT COUNT(*) FROM hold) AS holds FROM usage WHERE request_id = ?";

  test("of a stream or of a whole response finds its usage row and its charge in the database", async () => {
    await start(SETUP);
    const store = openStore(true);
    for (const [path, prompt, terminal] of [
      ["/v1/chat/completions", { messages }, "[DONE]"],
      ["/v1/responses", { input: "Hello" }, "response.completed"],
    ] as const) {
      for (let i = 0; i < 20; i++) {
        const response = await call(path, { model: "paid", ...prompt, stream: true });
        const id = response.headers.get("x-request-id") ?? "";
        const decoder = new TextDecoder();
        let seen = "";
        for await (const chunk of response.body ?? []) {
          seen += decoder.decode(chunk, { stream: true });
          // At this moment, without waiting.
          if (!seen.includes(terminal)) continue;
          expect(store.query(READ_ROW).get(id)).toMatchObject({ holds: 0, charged_nano: expect.any(Number) });
          break;
        }
        expect(seen).toContain(terminal);
      }
    }
    for (let i = 0; i < 20; i++) {
      const response = await call("/v1/chat/completions", { model: "paid", messages });
      const row = store.query(READ_ROW).get(response.headers.get("x-request-id") ?? "");
      expect(row).toMatchObject({ holds: 0, charged_nano: expect.any(Number) });
      await response.text();
    }
    store.close();
  });
});

describe("after a restart", () => {
  test("balance, usage, stored idempotent responses and windows are unchanged", async () => {
    await start(SETUP);
    await someTraffic();
    const key = { "idempotency-key": "one" };
    const first = await (await call("/v1/chat/completions", { model: "paid", messages }, key)).text();
    const before = await usage();
    expect(Number(before.billing.balance)).toBeLessThan(1);
    await restart();
    const after = await usage();
    expect(after.usage.total.charged).toBe(before.usage.total.charged);
    expect(after.billing).toMatchObject({ balance: before.billing.balance, held: "0.00" });
    const again = await call("/v1/chat/completions", { model: "paid", messages }, key);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(await again.text()).toBe(first);
    expect((await usage()).billing.balance).toBe(before.billing.balance);
  });

  test("in-flight requests of a killed process are settled once, and their holds are released", async () => {
    await start(SETUP);
    const response = await call("/v1/responses", { model: "slow", input: "Hello", stream: true });
    const reader = response.body?.getReader();
    // The output so far is recorded about once a second.
    const untilMs = performance.now() + 1_500;
    while (performance.now() < untilMs) await reader?.read();
    process.kill(gateway?.pid ?? 0, "SIGKILL");
    await gateway?.exited;
    gateway = null;
    const broken = await run("audit", "--json");
    expect(JSON.parse(broken.output)).toMatchObject({ findings: [], counts: { holds: 1 } });
    await restart();
    const { billing } = await usage();
    expect(billing.held).toBe("0.00");
    const id = response.headers.get("x-request-id") ?? "";
    const report = (await (await call(`/v1/requests/${id}`)).json()) as {
      outcome: string;
      money: { flags: string[]; charged: string };
    };
    expect(report.money.flags).toContain("recovered");
    expect(Number(report.money.charged)).toBeGreaterThan(0);
    expect(Number(billing.balance)).toBeCloseTo(1 - Number(report.money.charged), 9);
    expect((await run("audit")).code).toBe(0);
  });

  test("a killed process charges no input for a request whose connection was not open", async () => {
    let handshakes = 0;
    const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => void handshakes++ } });
    try {
      const account = { kind: "openai", credential: "credential", private_network: true };
      const SLOW = "sim-fast@events=400,interval=10ms";
      await start({
        balance: "1.00",
        models: { silent: "sim-fast", slow: SLOW },
        accounts: [
          { ...account, name: "sim", base_url: SIMULATOR, models: { slow: SLOW } },
          // It never completes the TLS handshake.
          {
            ...{ ...account, name: "silent", base_url: `https://127.0.0.1:${silent.port}` },
            models: { silent: "sim-fast" },
          },
        ],
      });
      const unsent = call("/v1/responses", { model: "silent", input: "Hello" }).catch(() => null);
      await eventually(() => handshakes > 0);
      const sent = await call("/v1/responses", { model: "slow", input: "Hello", stream: true });
      const store = openStore(true);
      const states = () =>
        store.query("SELECT public_model, state FROM hold ORDER BY public_model").values() as [
          string,
          string,
        ][];
      // What was recorded of the earlier request is written with, or before, that of the later one.
      await eventually(() => states().some(([model, state]) => model === "slow" && state === "dispatched"));
      expect(states()[0]).toEqual(["silent", "admitted"]);
      store.close();
      process.kill(gateway?.pid ?? 0, "SIGKILL");
      await gateway?.exited;
      gateway = null;
      await unsent;
      await restart();
      const { billing, usage: used } = await usage();
      const id = sent.headers.get("x-request-id") ?? "";
      const report = (await (await call(`/v1/requests/${id}`)).json()) as { money: { charged: string } };
      expect(Number(report.money.charged)).toBeGreaterThan(0);
      expect(used.total.charged).toBe(report.money.charged);
      expect(billing.held).toBe("0.00");
      expect((await run("audit")).code).toBe(0);
    } finally {
      silent.stop(true);
    }
  });
});

test("explain shows the cost of a request: its payer, and the price of every part", async () => {
  await start({ ...SETUP, billing: { multiplier: "1.5" } });
  const response = await call("/v1/chat/completions", { model: "paid", messages });
  await response.text();
  const { code, output } = await run("explain", response.headers.get("x-request-id") ?? "");
  expect(code).toBe(0);
  expect(output).toMatch(
    /^cost: \$(0\.000\d+), \$\1 charged to the balance of payer@example\.com; upstream cost \$0\.000\d+$/m,
  );
  expect(output).toMatch(/^input +\d+ +\$2\.50 \/ 1M tokens +1\.5 +\$0\.000\d+$/m);
  expect(output).toMatch(/^output +\d+ +\$10\.000001 \/ 1M tokens +1\.5 +\$0\.000\d+$/m);
});

describe("model-gateway audit", () => {
  test("has no findings after every kind of request, with and without a running gateway", async () => {
    await start({
      ...SETUP,
      plans: [{ name: "pro", windows: [{ per: "day", usd: "1.00" }] }],
      subscriptions: [{ plan: "pro" }],
    });
    await someTraffic();
    await run("wallet", "top-up", "--user", PAYER, "--usd", "5");
    const whileRunning = await run("audit");
    expect(whileRunning).toMatchObject({ code: 0, output: expect.stringContaining("Ledger check passed") });
    await gateway?.stop();
    gateway = null;
    expect((await run("audit")).code).toBe(0);
  });

  describe("detects a manipulation, exits with 1 and names it:", () => {
    /** A data folder with one paid request; each test manipulates a copy. */
    let original: string;
    let id: string;

    beforeAll(async () => {
      original = mkdtempSync(join(tmpdir(), "model-gateway-books-"));
      folder = original;
      upstream = startSimulator({ tokens: "o200k", record: "full" });
      await start(SETUP);
      const response = await call("/v1/chat/completions", { model: "paid", messages });
      await response.text();
      id = response.headers.get("x-request-id") ?? "";
      await gateway?.stop();
      gateway = null;
      expect((await run("audit")).code).toBe(0);
      await upstream.stop();
    });
    afterAll(() => rmSync(original, { recursive: true, force: true }));

    test.each([
      [
        "the charge of a usage row",
        "UPDATE usage_row SET charged_nano = charged_nano + 1 WHERE request_id = ?",
        "row_entry",
      ],
      [
        "the amount of an entry",
        "UPDATE entry SET amount_nano = amount_nano + 1 WHERE request_id = ?",
        "balance",
      ],
      ["an entry (deleted)", "DELETE FROM entry WHERE request_id = ?", "row_entry"],
      ["a usage row (deleted)", "DELETE FROM usage_row WHERE request_id = ?", "entry_row"],
      ["a balance", "UPDATE wallet SET balance_nano = balance_nano + 1 WHERE ? <> ''", "balance"],
      ["the held amount", "UPDATE wallet SET held_nano = held_nano + 1 WHERE ? <> ''", "held"],
      ["a sum", "UPDATE usage_hour SET cost_nano = cost_nano + 1 WHERE ? <> ''", "roll_up"],
    ])("%s", async (_, statement, check) => {
      cpSync(original, folder, { recursive: true });
      const store = openStore(false);
      store.query(statement).run(id);
      store.close();
      const { code, output } = await run("audit");
      expect(code).toBe(1);
      const found = JSON.parse((await run("audit", "--json")).output) as {
        findings: { check: string; subject: string }[];
      };
      const finding = found.findings.find((one) => one.check === check);
      expect(finding).toBeDefined();
      expect(output).toContain(finding?.subject ?? "?");
      if (["row_entry", "entry_row"].includes(check)) expect(finding?.subject).toContain(id);
    });
  });
});
