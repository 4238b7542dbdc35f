/**
 * The CPU cost of billing one request: hold, dispatch mark and settlement with its usage row, at a steady rate and with
 * requests that last a while. Three loops take turns: without billing, with an unpaid usage row, with a paid request. The
 * result is the median of their differences within a round, because machines are not equally fast all the time. CPU of
 * other threads (compiler, garbage collector, disk) is shown separately.
 * `USERS=200 bun bench/billing-cost.ts [--json] [rate] [seconds of each, in each round] [database url]`
 */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, uuidV7 } from "../src/base/clock.ts";
import type { BillingEngine } from "../src/billing/engine/billing-engine.ts";
import type { DirectBillingOptions, HoldRequest, Settlement } from "../src/billing/engine/direct-billing.ts";
import { SettlementSpool } from "../src/billing/engine/settlement-spool.ts";
import { Journal } from "../src/billing/journal/journal.ts";
import { WriteBehindBilling } from "../src/billing/write-behind/write-behind-billing.ts";
import { limits } from "../src/config/limits/product-limits.ts";
import { makeTariff } from "../src/money/tariff.ts";
import { BillingFaults } from "../src/observe/billing-faults.ts";
import { type Db, openDb, transaction } from "../src/store/engine/db.ts";
import { migrate } from "../src/store/engine/migrate.ts";
import { openWalCheckpointer } from "../src/store/engine/wal-checkpointer.ts";
import { postTransfer } from "../src/store/money/ledger.ts";
import { NO_FALLBACK, NO_MONEY } from "../src/store/usage/usage.ts";
import { warmUp } from "./warm-up.ts";

export interface BillingCost {
  readonly holdAndSettleMicros: number;
}

const isJson = process.argv.includes("--json");
const [rateText = "5000", secondsText = "4", url] = process.argv.slice(2).filter((one) => one !== "--json");
const rate = Number(rateText);
const seconds = Number(secondsText);
const USERS = Number(process.env.USERS ?? 200);
const DURATION_MS = [100, 1_000] as const;
const ROUNDS = 15;
/** In the engine that is measured: for a second one the runtime compiles again, and no gateway has two. */
const WARM_UP = { atLeastMs: 30_000, atMostMs: 120_000 };
/** The compiler counts requests, not seconds. */
const WARM_UP_FASTER = 2;

const folder = mkdtempSync(join(tmpdir(), "billing-cost-"));

interface BillingSetup {
  engine: Db["engine"];
  billingEngine: BillingEngine;
  close(): Promise<void>;
}

/** A billing engine, and a database in which every user has enough money. */
async function openBillingSetup(): Promise<BillingSetup> {
  const file = url ?? `sqlite:${folder}/billing.db`;
  const db = await openDb(file);
  await migrate(db);
  await transaction(db, async (tx) => {
    for (let user = 0; user < USERS; user++) {
      await postTransfer(tx, {
        id: uuidV7("topup"),
        atMs: Date.now(),
        kind: "topup",
        debit: "topup:bench",
        credit: `user:u${user}`,
        amountNano: 10n ** 15n,
        userId: `u${user}`,
        subscriptionId: null,
        requestId: null,
        actor: "bench",
        reason: null,
      });
    }
  });
  const options: DirectBillingOptions = {
    db,
    log: { info() {}, warn: console.error, error: console.error },
    clock: systemClock,
    processId: uuidV7("inc"),
    spool: new SettlementSpool(folder, "bench"),
    durability: process.env.DURABILITY === "disk" ? "disk" : "process",
    faults: new BillingFaults(systemClock.nowMs),
    limits: limits.billingEngine,
  };
  const journal = new Journal({
    dir: folder,
    processId: options.processId,
    segmentBytes: limits.writeBehind.segmentBytes,
  });
  const { sharedServer, ...embedded } = limits.writeBehind;
  if (db.engine !== "sqlite") {
    const billingEngine = new WriteBehindBilling({
      ...options,
      bookingDb: db,
      journal,
      writeBehind: { ...embedded, ...sharedServer },
      checkpointWal() {},
    });
    return { engine: db.engine, billingEngine, close: () => billingEngine.stop().then(() => db.close()) };
  }
  const checkpointer = openWalCheckpointer(file);
  const books = await openDb(file);
  const billingEngine = new WriteBehindBilling({
    ...options,
    bookingDb: books,
    journal,
    writeBehind: embedded,
    checkpointWal: checkpointer.checkpoint,
  });
  return {
    engine: db.engine,
    billingEngine,
    async close() {
      await billingEngine.stop();
      await checkpointer.close();
      await books.close();
      await db.close();
    },
  };
}

const tariff = makeTariff({ input: "2.50", output: "10.00" });

/** As compiled policy has them: every request of a key has the same ones. */
const users = Array.from({ length: USERS }, (_, i) => ({ userId: `u${i}`, keyId: `k${i}` }));
type User = (typeof users)[number];

function buildHoldRequest(requestId: string, { userId, keyId }: User): HoldRequest {
  return {
    requestId,
    userId,
    charge: "balance",
    plans: null,
    tariff,
    wantedNano: 12_345_678n,
    leastNano: 1_000n,
    inputTokens: 900,
    keyId,
    groupId: "g1",
    interface: "chat",
    endpoint: "/v1/chat/completions",
    publicModel: "fast-chat",
    stream: true,
    isLasting: false,
  };
}

function buildSettlement(requestId: string, { userId, keyId }: User): Settlement {
  return {
    chargedNano: 4_567_891n,
    row: {
      requestId,
      requestCount: 1,
      atMs: Date.now(),
      keyId,
      userId,
      groupId: "g1",
      accountId: "acc_1",
      interface: "chat",
      endpoint: "/v1/chat/completions",
      publicModel: "fast-chat",
      upstreamModel: "gpt-x-mini",
      stream: true,
      status: 200,
      outcome: "completed",
      errorCode: null,
      inputTokens: 913,
      cachedTokens: 128,
      cacheWriteTokens: 0,
      cacheWrite1hTokens: 0,
      outputTokens: 233,
      reasoningTokens: 64,
      imageInputTokens: 0,
      audioInputTokens: 0,
      audioOutputTokens: 0,
      images: 0,
      webSearches: 0,
      costNano: 4_567_891n,
      chargedNano: 4_567_891n,
      upstreamNano: 4_567_891n,
      payer: "balance",
      tariffId: tariff.id,
      flags: [],
      ...NO_FALLBACK,
      usageSource: "upstream",
      attempts: 1,
      firstByteMs: 120,
      durationMs: 900,
      waitMs: 0,
      responseId: `chatcmpl-${requestId.slice(-12)}`,
      upstreamRequestId: null,
      trace: null,
    },
  };
}

/** How long requests waited for their holds and for their settlements; those that have neither only look at the clock. */
const holdMs: number[] = [];
const settleMs: number[] = [];
const noHoldMs: number[] = [];
const noSettleMs: number[] = [];

type Request = (user: User, lastsMs: number) => Promise<void>;

function paidRequest(billingEngine: BillingEngine): Request {
  return async (user, lastsMs) => {
    const requestId = uuidV7("req");
    const startMs = performance.now();
    const held = await billingEngine.hold(buildHoldRequest(requestId, user));
    holdMs.push(performance.now() - startMs);
    if (held.kind !== "held") throw new Error("short");
    billingEngine.recordDispatch(requestId, "acc_1", "gpt-x-mini");
    await Bun.sleep(lastsMs);
    const endMs = performance.now();
    await billingEngine.settle(buildSettlement(requestId, user));
    settleMs.push(performance.now() - endMs);
  };
}

/** The same without a hold: ids, rows, timers and promises are not a cost of billing. */
function unheldRequest(end: (settlement: Settlement) => unknown): Request {
  return async (user, lastsMs) => {
    const requestId = uuidV7("req");
    const startMs = performance.now();
    await Promise.resolve(buildHoldRequest(requestId, user));
    noHoldMs.push(performance.now() - startMs);
    await Bun.sleep(lastsMs);
    const endMs = performance.now();
    await end(buildSettlement(requestId, user));
    noSettleMs.push(performance.now() - endMs);
  };
}

const KINDS = ["without", "unpaid", "paid"] as const;
type Kind = (typeof KINDS)[number];

function buildRequests({ billingEngine }: BillingSetup): Record<Kind, Request> {
  return {
    without: unheldRequest((settlement) => settlement),
    // The row is written without a wait, and nothing is charged.
    unpaid: unheldRequest(({ row }) => billingEngine.push({ ...row, ...NO_MONEY })),
    paid: paidRequest(billingEngine),
  };
}

/** Of a request, in microseconds. */
interface Cost {
  cpu: number;
  /** Of it, on other threads than the process's own. */
  beside: number;
}

/** Of this process so far, in microseconds. */
function readCost(): Cost {
  const { user, system } = process.cpuUsage();
  const cpu = user + system;
  return { cpu, beside: cpu - readOwnThread() };
}

function readOwnThread(): number {
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1_000;
}

/**
 * Arrivals by chance, as from many clients: the loop asks every millisecond how many are due. Returns what a request
 * costs, until all of them are in the store.
 */
async function drive(setup: BillingSetup, request: Request, perSecond: number, forMs: number): Promise<Cost> {
  const before = readCost();
  const startMs = performance.now();
  const open = new Set<Promise<void>>();
  let sent = 0;
  for (;;) {
    const atMs = performance.now() - startMs;
    if (atMs > forMs) break;
    while (sent < (atMs / 1000) * perSecond) {
      const lastsMs = DURATION_MS[0] + Math.random() * (DURATION_MS[1] - DURATION_MS[0]);
      const user = users[Math.floor(Math.random() * users.length)];
      if (user === undefined) throw new Error("there are no users");
      const one = request(user, lastsMs);
      open.add(one);
      void one.then(() => open.delete(one));
      sent++;
      // A socket delivers its requests one by one, with other work in between.
      if (Math.random() < 0.5) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await Bun.sleep(1);
  }
  await Promise.all(open);
  await setup.billingEngine.flush();
  const { cpu, beside } = readCost();
  return { cpu: (cpu - before.cpu) / sent, beside: (beside - before.beside) / sent };
}

const at = (values: number[], part: number) =>
  values.sort((a, b) => a - b)[Math.floor(values.length * part)] ?? 0;
const median = (values: number[]) => at(values, 0.5);
const formatCost = ({ cpu, beside }: Cost) => `${cpu.toFixed(1)} (${beside.toFixed(1)} beside)`;

const setup = await openBillingSetup();
const requests = buildRequests(setup);
const warmedUp = await warmUp(process.pid, WARM_UP, async (spanMs) => {
  for (const kind of KINDS) await drive(setup, requests[kind], rate * WARM_UP_FASTER, spanMs / KINDS.length);
  console.error("warming up");
});
console.error(warmedUp);
const costs: Record<Kind, Cost[]> = { without: [], unpaid: [], paid: [] };
for (const waits of [holdMs, settleMs, noHoldMs, noSettleMs]) waits.length = 0;
for (let round = 1; round <= ROUNDS; round++) {
  for (const kind of KINDS) {
    const cost = await drive(setup, requests[kind], rate, seconds * 1_000);
    costs[kind].push(cost);
    console.error(`round ${round} of ${ROUNDS}: ${kind} ${formatCost(cost)} µs`);
  }
}

/** What the one costs beyond the other: of each round, for the machine is much the same within one. */
function differences(one: Kind, other: Kind): Cost[] {
  return costs[one].map(({ cpu, beside }, round) => ({
    cpu: cpu - (costs[other][round]?.cpu ?? 0),
    beside: beside - (costs[other][round]?.beside ?? 0),
  }));
}

function formatDifference(one: Kind, other: Kind): string {
  const more = differences(one, other);
  const all = more.map(({ cpu }) => cpu);
  const half = `half of rounds ${at(all, 0.25).toFixed(1)} to ${at(all, 0.75).toFixed(1)}`;
  return `${formatCost({ cpu: median(all), beside: median(more.map(({ beside }) => beside)) })}, ${half}`;
}

const wait = (values: number[]) => `p50 ${at(values, 0.5).toFixed(2)} p99 ${at(values, 0.99).toFixed(2)} ms`;
const text = `${setup.engine}, ${rate}/s of ${USERS} users, µs CPU a request:
  usage row, which every request has   ${formatDifference("unpaid", "without")}
  hold and settlement on top of that   ${formatDifference("paid", "unpaid")}
hold ${wait(holdMs)}, settle ${wait(settleMs)}`;
const cost: BillingCost = {
  holdAndSettleMicros: median(differences("paid", "unpaid").map(({ cpu }) => cpu)),
};
console.log(isJson ? JSON.stringify(cost) : text);
await setup.close();
rmSync(folder, { recursive: true, force: true });
