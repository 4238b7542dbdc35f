/**
 * What admission and dispatch cost a request with 1,000 accounts and 100,000 keys: the caller's limits, the choice of an
 * account, and the release of both. Prints JSON. A separate process, so that nothing else is measured with it.
 */

import { systemClock } from "../src/base/clock.ts";
import { callerSubjects } from "../src/gateway/admission/caller-limits.ts";
import { openLimiter } from "../src/limits/limiter.ts";
import { KeyIndex } from "../src/policy/key-index.ts";
import { compileSnapshot } from "../src/policy/snapshot.ts";
import { openPool } from "../src/pool/pool.ts";
import type { KeyOfUser } from "../src/records/key.ts";
import { NO_LIMITS, NO_RATE_LIMITS } from "../src/records/limits.ts";
import { accountRecord, groupRecord, modelRecord } from "../src/records/records.test-support.ts";
import { median } from "./measure.ts";

const ACCOUNTS = 1_000;
const KEYS = 100_000;
const WARM_UP = 200_000;
const ROUNDS = 15;
const REQUESTS_PER_ROUND = 50_000;
const IN_FLIGHT = 64;

export interface DispatchCost {
  microsPerRequest: number;
}

const limits = { ...NO_LIMITS, concurrency: 100_000, rpm: 1_000_000, tpm: 1_000_000_000 };
const snapshot = compileSnapshot(
  {
    models: [modelRecord("m")],
    accounts: Array.from({ length: ACCOUNTS }, (_, i) =>
      accountRecord(`a${i}`, {
        baseUrl: "http://127.0.0.1:1/v1",
        privateNetwork: true,
        weight: 1 + (i % 3),
        limits: { ...NO_RATE_LIMITS, concurrency: 1_000, rpm: 1_000_000 },
      }),
    ),
    groups: [
      groupRecord("g", {
        interfaces: ["chat"],
        models: ["m"],
        accounts: Array.from({ length: ACCOUNTS }, (_, i) => `a${i}`),
        limits,
      }),
    ],
  },
  { unseal: () => null, simulatorUrl: null },
);
const keys = new KeyIndex();
keys.patch(
  Array.from({ length: KEYS }, (_, i): KeyOfUser => {
    return {
      id: `k${i}`,
      name: `k${i}`,
      userId: null,
      groupId: "g",
      digest: `d${i}`,
      publicId: `p${i}`,
      last4: "0000",
      status: "active",
      expiresAtMs: null,
      createdAtMs: 1,
      revokedAtMs: null,
      limits: NO_LIMITS,
      userLimits: NO_LIMITS,
      requestPolicy: null,
      fallback: null,
      capture: null,
      formerSecrets: [],
    };
  }),
);

const group = snapshot.groups.get("g");
const routes = group?.models.get("m")?.routes.get("chat");
if (!group || !routes) throw new Error("the snapshot does not hold what it was made of");
const limiter = openLimiter(systemClock);
const pool = openPool({ clock: systemClock, random: Math.random, limiter });
const tried = new Set<never>();
const under: (() => void)[] = [];

function request(number: number): void {
  const key = keys.find(`d${(number * 7_919) % KEYS}`, 0);
  if (!key || !group || !routes) throw new Error("no such key");
  const own = limiter.admit(callerSubjects({ key, group }), { tokens: 700 });
  if (!own.ok) throw new Error("a limit that nothing comes near was reached");
  const pick = pool.pick({ routes, tried, affinity: null, estimate: { tokens: 700 } });
  if (pick.kind !== "picked") throw new Error("a thousand idle accounts and none to be had");
  under.push(() => {
    pool.recordSuccess(pick.route, 50, null);
    pick.lease.settle({ tokens: 650, nano: 0 });
    pick.lease.release();
    own.lease.settle({ tokens: 650, nano: 0 });
    own.lease.release();
  });
  if (under.length > IN_FLIGHT) under.shift()?.();
}

for (let i = 0; i < WARM_UP; i++) request(i);
let sent = WARM_UP;
/** The median, because another process that uses the CPU cache makes a round up to twice as expensive. */
const rounds = Array.from({ length: ROUNDS }, () => {
  const before = process.cpuUsage();
  for (let i = 0; i < REQUESTS_PER_ROUND; i++) request(sent++);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / REQUESTS_PER_ROUND;
});
const cost: DispatchCost = { microsPerRequest: median(rounds) };
console.log(JSON.stringify(cost));
