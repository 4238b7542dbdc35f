/** USD windows of a key, a user and a group: they reject with the reset time, and survive a restart. */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { type PaidSetup, paidFile } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

let folder: string;
let upstream: Simulator;
let gateway: GatewayProcess | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-windows-"));
  upstream = startSimulator({ tokens: "o200k" });
});

afterEach(async () => {
  await gateway?.stop();
  gateway = null;
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(setup: PaidSetup): Promise<void> {
  await Bun.write(join(folder, "gateway.yaml"), paidFile(setup));
  await restart();
}

async function restart(): Promise<void> {
  if (gateway !== null) expect(await gateway.stop()).toBe(0);
  const env = { SIMULATOR_URL: upstream.url };
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"], env });
}

interface ReportedLimits {
  status: number;
  headers: Headers;
  error: { type: string; code: string; message: string; resets_at: number } | null;
}

async function ask(secret = TEST_KEY, more: object = {}): Promise<ReportedLimits> {
  const messages = [{ role: "user", content: "Hello" }];
  const response = await fetch(`${gateway?.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "paid", messages, ...more }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    error: response.ok ? null : JSON.parse(text).error,
  };
}

async function untilRejected(secret = TEST_KEY): Promise<{ served: number; reported: ReportedLimits }> {
  for (let served = 0; ; served++) {
    const reported = await ask(secret);
    if (reported.status !== 200) return { served, reported };
  }
}

interface Report {
  limits: { key: { windows: { usd: { used: string; remaining: string } }[] } };
  usage: { total: { cost: string } };
}

const report = async (): Promise<Report> => {
  const headers = { authorization: `Bearer ${TEST_KEY}` };
  return (await (await fetch(`${gateway?.url}/v1/usage`, { headers })).json()) as Report;
};

const windowLeft = async (): Promise<string> => {
  const { limits } = await report();
  return limits.key.windows[0]?.usd.remaining ?? "";
};

/** A response costs about $0.0005 and could cost $0.16: it is limited to the rest of the window. */
const window = (usd: string) => ({ windows: [{ per: "5h", usd }] });
const free = { billing: { charge: "none" } } as const;

test("an exhausted window of a key rejects for every kind of charge, and survives a restart", async () => {
  await start({ ...free, group: { limits: window("0.01") } });
  const { served, reported } = await untilRejected();
  expect(served).toBeGreaterThan(1);
  expect(reported.status).toBe(429);
  expect(reported.error).toMatchObject({ type: "usage_limit_reached" });
  expect(reported.error?.message).toMatch(
    /^Usage limit reached for this API key: only \$0\.00\d+ of \$0\.01 per 5 hours is left\. Try again at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.$/,
  );
  expect(reported.headers.get("x-should-retry")).toBe("false");
  const inHours = ((reported.error?.resets_at ?? 0) - Date.now() / 1000) / 3_600;
  expect(inHours).toBeGreaterThan(4.9);
  expect(inHours).toBeLessThan(5.1);
  const left = await windowLeft();
  await restart();
  expect(await windowLeft()).toBe(left);
  const after = await ask();
  expect([after.status, after.error?.type]).toEqual([429, "usage_limit_reached"]);
  expect(upstream.ledger.totals().requests).toBe(served);
});

test.each(["balance", "none"])(
  "a small window is not exceeded by parallel unlimited requests, and can be used up (charge: %s)",
  async (charge) => {
    // An unlimited response of this model costs $0.02: twice the window.
    await start({
      models: { paid: "sim-fast@bytes=10000" },
      balance: "10.00",
      billing: { charge },
      group: { limits: window("0.01") },
    });
    // No response may end before all requests have been decided.
    upstream.force("slow-headers@2s");
    const reported = await Promise.all(Array.from({ length: 25 }, () => ask()));
    upstream.force(null);
    expect(reported.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(1);
    const refused = reported.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(20);
    for (const { status, error, headers } of refused) {
      expect([status, error?.code]).toEqual([429, "rate_limit_exceeded"]);
      expect(error?.message).toContain("reserved for requests in flight");
      expect(headers.get("retry-after")).toBe("1");
      expect(headers.get("x-should-retry")).not.toBe("false");
    }
    const { served } = await untilRejected();
    expect(served).toBeLessThan(3);
    const { usage, limits } = await report();
    expect(limits.key.windows[0]?.usd.used).toBe(usage.total.cost);
    // The estimate of the input can be a few tokens off.
    expect(Number(usage.total.cost)).toBeGreaterThan(0.008);
    expect(Number(usage.total.cost)).toBeLessThan(0.0105);
  },
);

test("windows of users and groups apply to all of their keys", async () => {
  const other = "other-key-0123456789-0123456789-0123456789";
  await start({
    balance: "1.00",
    group: { group_limits: window("0.01") },
    keys: [{ name: "other", user: "payer@example.com", group: "paying", secret: other }],
  });
  expect((await untilRejected()).reported.error?.message).toStartWith(
    "Usage limit reached for this key's group",
  );
  expect((await ask(other)).status).toBe(429);
});

test("absurd upstream usage does not exhaust a window, before or after a restart", async () => {
  await start({
    ...free,
    models: { paid: "fault/usage-huge" },
    group: { limits: { windows: [{ per: "5h", usd: "0.05", tokens: 100_000 }] } },
  });
  for (let i = 0; i < 3; i++) expect((await ask()).status).toBe(200);
  await restart();
  expect((await ask()).status).toBe(200);
});

test("absurd upstream usage costs no more than the window affords", async () => {
  await start({ models: { paid: "fault/usage-huge" }, balance: "1.00", group: { limits: window("0.002") } });
  expect((await ask()).status).toBe(200);
  const { usage } = await report();
  expect(Number(usage.total.cost)).toBeGreaterThan(0.0015);
  // The hold assumes a token for each byte of the input, the window fewer.
  expect(Number(usage.total.cost)).toBeLessThan(0.0025);
});

test.each(["balance", "none"])(
  "usage that was counted locally (charge: %s) is in the window, before and after a restart",
  async (charge) => {
    const models = { paid: "fault/no-usage" };
    await start({ models, balance: "1.00", billing: { charge }, group: { limits: window("0.10") } });
    for (const stream of [false, true]) expect((await ask(TEST_KEY, { stream })).status).toBe(200);
    const { usage, limits } = await report();
    expect(Number(usage.total.cost)).toBeGreaterThan(0);
    expect(limits.key.windows[0]?.usd.used).toBe(usage.total.cost);
    await restart();
    expect((await report()).limits.key.windows[0]?.usd.used).toBe(usage.total.cost);
  },
);
