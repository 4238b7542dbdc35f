/**
 * What the money of a request costs: hold, dispatch mark and settlement with its usage row, at a steady rate with
 * requests that last a while. Prints CPU per request above that of the same loop without a till, that of the usage row
 * alone, which requests that nobody pays for have as well, what is left of the one without the other, and how long a
 * request waits for its hold and for its settlement. The three take turns, and what counts is the median of what they
 * differ by within a round: machines are not equally fast all the time. What is spent on other threads is told apart: they
 * compile, collect garbage and write to the disk.
 * `USERS=200 bun bench/till-cost.ts [rate] [seconds of each, in each round] [database url]`
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openExpressTill } from "../src/billing/express.ts";
import { openJournal } from "../src/billing/journal.ts";
import { withRowJournal } from "../src/billing/row-journal.ts";
import { openSettlementSpool } from "../src/billing/settlement-spool.ts";
import { type HoldAsked, openTill, type Settlement, type TillOptions } from "../src/billing/till.ts";
import { systemClock, uuidV7 } from "../src/clock.ts";
import { limits } from "../src/config/limits.ts";
import { makeTariff } from "../src/money/tariff.ts";
import { openDb, transaction } from "../src/store/db.ts";
import { postTransfer } from "../src/store/ledger.ts";
import { openLogMover } from "../src/store/log-mover.ts";
import { migrate } from "../src/store/migrate.ts";
import { NO_MONEY } from "../src/store/usage.ts";

const [rateText = "5000", secondsText = "2", url] = process.argv.slice(2);
const rate = Number(rateText);
const seconds = Number(secondsText);
const USERS = Number(process.env.USERS ?? 200);
const LASTS_MS = [100, 1_000] as const;
const ROUNDS = 21;
/** Of each: the compiler's threads are at work for about that long. Whatever serves for days pays for it once. */
const WARM_MS = 40_000;

const folder = mkdtempSync(join(tmpdir(), "till-cost-"));
const db = await openDb(url ?? `sqlite:${folder}/till.db`);
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

const options: TillOptions = {
  db,
  log: { info() {}, warn: console.error, error: console.error },
  clock: systemClock,
  incarnation: uuidV7("inc"),
  spool: openSettlementSpool(folder, "bench"),
  durability: process.env.DURABILITY === "disk" ? "disk" : "process",
  limits: limits.till,
};
const mover = openLogMover(`sqlite:${folder}/till.db`);
const journal = openJournal(folder, options.incarnation, limits.express.segmentBytes);
const till =
  db.engine === "sqlite"
    ? openExpressTill({
        ...options,
        books: await openDb(`sqlite:${folder}/till.db`),
        journal,
        express: limits.express,
        moveLog: mover.move,
      })
    : withRowJournal({ ...options, ...limits.till, ...limits.express, till: openTill(options), journal });
const tariff = makeTariff({ input: "2.50", output: "10.00" });

function askedFor(requestId: string, user: number): HoldAsked {
  return {
    requestId,
    userId: `u${user}`,
    charge: "balance",
    plans: null,
    tariff,
    wantedNano: 12_345_678n,
    leastNano: 1_000n,
    inputTokens: 900,
    keyId: `k${user}`,
    groupId: "g1",
    interface: "chat",
    endpoint: "/v1/chat/completions",
    publicModel: "fast-chat",
    stream: true,
    isLasting: false,
  };
}

function settlementOf(requestId: string, user: number): Settlement {
  return {
    chargedNano: 4_567_891n,
    row: {
      requestId,
      atMs: Date.now(),
      keyId: `k${user}`,
      userId: `u${user}`,
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
      outputTokens: 233,
      reasoningTokens: 64,
      imageInputTokens: 0,
      audioInputTokens: 0,
      audioOutputTokens: 0,
      images: 0,
      costNano: 4_567_891n,
      chargedNano: 4_567_891n,
      upstreamNano: 4_567_891n,
      payer: "balance",
      tariffId: tariff.id,
      flags: [],
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

type Request = (user: number, lastsMs: number) => Promise<void>;

const paid: Request = async (user, lastsMs) => {
  const requestId = uuidV7("req");
  const startMs = performance.now();
  const held = await till.hold(askedFor(requestId, user));
  holdMs.push(performance.now() - startMs);
  if (held.kind !== "held") throw new Error("short");
  till.dispatched(requestId, "acc_1", "gpt-x-mini");
  await Bun.sleep(lastsMs);
  const endMs = performance.now();
  await till.settle(settlementOf(requestId, user));
  settleMs.push(performance.now() - endMs);
};

/** The same without a hold: ids, rows, timers and promises are not the till's cost. */
function unheld(end: (settlement: Settlement) => unknown): Request {
  return async (user, lastsMs) => {
    const requestId = uuidV7("req");
    const startMs = performance.now();
    await Promise.resolve(askedFor(requestId, user));
    noHoldMs.push(performance.now() - startMs);
    await Bun.sleep(lastsMs);
    const endMs = performance.now();
    await end(settlementOf(requestId, user));
    noSettleMs.push(performance.now() - endMs);
  };
}

/** Nobody waits for its row, and nothing is charged. */
const unpaid = unheld(({ row }) => till.push({ ...row, ...NO_MONEY }));

const without = unheld((settlement) => settlement);

/** Of a request, in microseconds. */
interface Cost {
  cpu: number;
  /** Of it, on other threads than the process's own. */
  beside: number;
}

/** Of this process so far, in microseconds. */
function spent(): Cost {
  let cpu = 0;
  for (const thread of readdirSync("/proc/self/task")) cpu += spentBy(thread);
  return { cpu, beside: cpu - spentBy(String(process.pid)) };
}

function spentBy(thread: string): number {
  try {
    return Number(readFileSync(`/proc/self/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1_000;
  } catch {
    // It has ended.
    return 0;
  }
}

/**
 * Arrivals by chance, as from many clients: the loop asks every millisecond how many are due. Returns what a request
 * costs, until all of them are in the store.
 */
async function drive(request: Request, forMs: number): Promise<Cost> {
  const before = spent();
  const startMs = performance.now();
  const open = new Set<Promise<void>>();
  let sent = 0;
  for (;;) {
    const atMs = performance.now() - startMs;
    if (atMs > forMs) break;
    while (sent < (atMs / 1000) * rate) {
      const lastsMs = LASTS_MS[0] + Math.random() * (LASTS_MS[1] - LASTS_MS[0]);
      const one = request(Math.floor(Math.random() * USERS), lastsMs);
      open.add(one);
      void one.then(() => open.delete(one));
      sent++;
      // A socket brings its requests one by one, with other work in between.
      if (Math.random() < 0.5) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await Bun.sleep(1);
  }
  await Promise.all(open);
  await till.flush();
  const { cpu, beside } = spent();
  return { cpu: (cpu - before.cpu) / sent, beside: (beside - before.beside) / sent };
}

const at = (values: number[], part: number) =>
  values.sort((a, b) => a - b)[Math.floor(values.length * part)] ?? 0;
const median = (values: number[]) => at(values, 0.5);

const kinds = { without, unpaid, paid };
const costs: Record<keyof typeof kinds, Cost[]> = { without: [], unpaid: [], paid: [] };

async function eachKind(forMs: number, note: (name: keyof typeof kinds, cost: Cost) => void): Promise<void> {
  for (const name of ["without", "unpaid", "paid"] as const) note(name, await drive(kinds[name], forMs));
}

const shown = ({ cpu, beside }: Cost) => `${cpu.toFixed(1)} (${beside.toFixed(1)} beside)`;
await eachKind(WARM_MS, (name, cost) => console.error(`warming up: ${name} ${shown(cost)} µs`));
holdMs.length = 0;
settleMs.length = 0;
for (let round = 1; round <= ROUNDS; round++) {
  await eachKind(seconds * 1_000, (name, cost) => {
    costs[name].push(cost);
    console.error(`round ${round} of ${ROUNDS}: ${name} ${shown(cost)} µs`);
  });
}

/** What the one costs beyond the other: of each round, for the machine is much the same within one. */
function beyond(one: keyof typeof kinds, other: keyof typeof kinds): string {
  const more = costs[one].map(({ cpu, beside }, round) => ({
    cpu: cpu - (costs[other][round]?.cpu ?? 0),
    beside: beside - (costs[other][round]?.beside ?? 0),
  }));
  const all = more.map(({ cpu }) => cpu);
  const half = `half of rounds ${at(all, 0.25).toFixed(1)} to ${at(all, 0.75).toFixed(1)}`;
  return `${shown({ cpu: median(all), beside: median(more.map(({ beside }) => beside)) })}, ${half}`;
}

const wait = (values: number[]) => `p50 ${at(values, 0.5).toFixed(2)} p99 ${at(values, 0.99).toFixed(2)} ms`;
console.log(`${db.engine}, ${rate}/s of ${USERS} users, µs CPU a request:
  usage row, which every request has   ${beyond("unpaid", "without")}
  hold and settlement on top of that   ${beyond("paid", "unpaid")}
hold ${wait(holdMs)}, settle ${wait(settleMs)}`);
await till.flush();
await till.stop();
await mover.close();
await db.close();
rmSync(folder, { recursive: true, force: true });
