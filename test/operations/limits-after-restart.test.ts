/** Long windows survive a restart: use before the restart still counts after it. */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { type PoolSetup, poolFile, type RequestSetup, sendToGateway } from "../support/pooled-gateway.ts";

setDefaultTimeout(60_000);

let folder: string;
let upstream: Simulator;
let gateway: GatewayProcess | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-restart-"));
  upstream = startSimulator({});
});

afterEach(async () => {
  await gateway?.stop();
  gateway = null;
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(setup: Omit<PoolSetup, "accounts">): Promise<void> {
  await Bun.write(join(folder, "gateway.yaml"), poolFile({ accounts: [{}], ...setup }, [upstream.url]));
  await restart();
}

async function restart(): Promise<void> {
  if (gateway !== null) expect(await gateway.stop()).toBe(0);
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
}

async function ask(how: RequestSetup): Promise<{ status: number; message: string }> {
  const response = await sendToGateway(gateway?.url ?? "", how);
  const text = await response.text();
  return { status: response.status, message: response.ok ? "" : JSON.parse(text).error.message };
}

async function statuses(key: string, count: number, more: RequestSetup = {}): Promise<number[]> {
  const seen: number[] = [];
  for (let i = 0; i < count; i++) seen.push((await ask({ key, ...more })).status);
  return seen;
}

test("request windows of a key, a user and a group survive a restart", async () => {
  await start({
    group: { group_limits: { windows: [{ per: "30d", requests: 10 }] } },
    users: { "one@example.com": { windows: [{ per: "7d", requests: 4 }] } },
    keys: {
      own: { limits: { windows: [{ per: "5h", requests: 3 }] } },
      first: { user: "one@example.com" },
      second: { user: "one@example.com" },
      free: {},
    },
  });
  expect(await statuses("own", 4)).toEqual([200, 200, 200, 429]);
  expect(await statuses("first", 3, { stream: true })).toEqual([200, 200, 200]);
  await restart();

  const own = await ask({ key: "own" });
  expect(own.status).toBe(429);
  expect(own.message).toMatch(
    /^Rate limit reached for this API key: 3 requests per 5 hours\. Please try again in \d+s\.$/,
  );
  // An hour counts as used at its end, so the window can last up to an hour too long.
  const seconds = Number(/in (\d+)s/.exec(own.message)?.[1]);
  expect(seconds).toBeGreaterThan(4.9 * 3_600);
  expect(seconds).toBeLessThan(6.1 * 3_600);
  // The rejected request before the restart used nothing: the user and the group continue where they were.
  expect(await statuses("second", 2)).toEqual([200, 429]);
  expect(await statuses("free", 4)).toEqual([200, 200, 200, 429]);
  await restart();
  expect((await ask({ key: "free" })).message).toStartWith(
    "Rate limit reached for this key's group: 10 requests per 30 days.",
  );
  expect(upstream.ledger.totals().requests).toBe(10);
});

test("token windows survive a restart with the true use", async () => {
  await start({ keys: { own: { limits: { windows: [{ per: "1d", tokens: 700 }] } } } });
  // Each request uses fewer than 100.
  expect(await statuses("own", 2)).toEqual([200, 200]);
  await restart();
  expect((await ask({ key: "own", more: { max_completion_tokens: 690 } })).status).toBe(429);
  expect((await ask({ key: "own", more: { max_completion_tokens: 100 } })).status).toBe(200);
});

test("windows that a group sets for each key survive a restart per key", async () => {
  const setup = {
    group: { limits: { windows: [{ per: "1d", requests: 2 }] } },
    keys: { own: {}, other: {} },
  } as const;
  await start(setup);
  expect(await statuses("own", 3)).toEqual([200, 200, 429]);
  await restart();
  expect(await statuses("own", 1)).toEqual([429]);
  expect(await statuses("other", 3)).toEqual([200, 200, 429]);
});
