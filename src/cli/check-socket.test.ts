import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { socketAccount } from "../accounts/account.test-support.ts";
import type { PolicyAccount } from "../accounts/account.ts";
import { systemClock } from "../base/clock.ts";
import { type Deadlines, openDeadlines } from "../base/deadlines.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { checkSocket } from "./check-socket.ts";

let simulator: Simulator;
let deadlines: Deadlines;

beforeEach(() => {
  simulator = startSimulator({ credential: "right" });
  deadlines = openDeadlines(5, systemClock);
});
afterEach(async () => {
  deadlines.stop();
  await simulator.stop();
});

function check(change: Partial<PolicyAccount> = {}) {
  const dialer = new Dialer({ clock: systemClock, lookupTimeoutMs: 1_000, cacheMs: 1_000 });
  const account = socketAccount({ name: "up", baseUrl: simulator.url, credential: "right", ...change });
  return checkSocket(account, dialer, deadlines);
}

test("an upstream that accepts the handshake is good, and gets no request", async () => {
  expect(await check()).toMatchObject({ what: "account up, WebSocket", state: "good" });
  expect(simulator.ledger.totals().requests).toBe(0);
});

test("an upstream that rejects is reported with its status and the consequence", async () => {
  simulator.force("upgrade@404", 1);
  expect(await check()).toMatchObject({ state: "doubtful", message: expect.stringContaining("(404)") });
  expect(await check({ credential: "wrong" })).toMatchObject({
    state: "broken",
    message: "rejected the credential (401)",
  });
});

test("an unreachable upstream is broken, and a disallowed address is left to the other check", async () => {
  expect(await check({ baseUrl: "http://127.0.0.1:1/v1" })).toMatchObject({ state: "broken" });
  expect(await check({ privateNetwork: false })).toBeNull();
});
