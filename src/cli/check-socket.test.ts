import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { socketAccount } from "../accounts/account.test-support.ts";
import { openDialer } from "../net/http-client/dial.ts";
import { systemClock } from "../net/wire/clock.ts";
import { type Deadlines, openDeadlines } from "../net/wire/deadlines.ts";
import type { PolicyAccount } from "../policy/snapshot.ts";
import { checkSocket } from "./check-socket.ts";

let simulator: Simulator;
let alarms: Deadlines;

beforeEach(() => {
  simulator = startSimulator({ credential: "right" });
  alarms = openDeadlines(5, systemClock);
});
afterEach(async () => {
  alarms.stop();
  await simulator.stop();
});

function check(change: Partial<PolicyAccount> = {}) {
  const dialer = openDialer({ clock: systemClock, lookupTimeoutMs: 1_000, cacheMs: 1_000 });
  const account = socketAccount({ name: "up", baseUrl: simulator.url, credential: "right", ...change });
  return checkSocket(account, dialer, alarms);
}

test("an upstream that shakes hands is good, and is left alone afterwards", async () => {
  expect(await check()).toMatchObject({ what: "account up, WebSocket", state: "good" });
  expect(simulator.ledger.totals().requests).toBe(0);
});

test("one that refuses is named with its status and what follows from it", async () => {
  simulator.force("upgrade@404", 1);
  expect(await check()).toMatchObject({ state: "doubtful", says: expect.stringContaining("(404)") });
  expect(await check({ credential: "wrong" })).toMatchObject({
    state: "broken",
    says: "refuses the credential (401)",
  });
});

test("one that is not there is broken; one that may not be dialled is for the other check to tell", async () => {
  expect(await check({ baseUrl: "http://127.0.0.1:1/v1" })).toMatchObject({ state: "broken" });
  expect(await check({ privateNetwork: false })).toBeNull();
});
