/**
 * Compares two nodes with write-behind billing on one PostgreSQL with an in-memory model, for random requests,
 * replacements of their holds, crashes, takeovers and freezes.
 */

import { expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { eventually } from "../../../test/support/eventually.ts";
import { usePostgres } from "../../../test/support/postgres.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { makeTariff } from "../../money/tariff.ts";
import type { Db } from "../../store/engine/db.ts";
import { findHolds } from "../../store/money/holds.ts";
import { writeHeartbeat } from "../../store/money/processes.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import type { HoldRequest, HoldResult } from "../engine/billing-types.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
  recover,
} from "../engine/direct-billing.test-support.ts";
import { BillingUnavailable } from "../engine/direct-billing.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { describeProcess } from "../recovery/process-watch.ts";

const INPUT_TOKENS = 20;
/** The price of a token after a replacement, in nano-USD. Before, it is one. */
const NEXT_PRICE = 3n;
const NEXT_TARIFF = makeTariff({ input: "0.003", output: "0.003" });
/** No process has this id. */
const DEAD_PID = 4_000_000;

type Step =
  | { kind: "fund"; user: number; nano: number }
  | { kind: "hold"; node: number; user: number; wanted: number; least: number }
  | { kind: "replace"; which: number; wanted: number; least: number }
  | { kind: "release"; which: number }
  | { kind: "settle"; which: number; percent: number; twice: boolean }
  | { kind: "send"; which: number; output: number }
  | { kind: "flush"; node: number }
  | { kind: "crash"; node: number; isTakenOver: boolean }
  | { kind: "freeze"; node: number };

const node = fc.nat({ max: 1 });
const user = fc.nat({ max: 1 });
const which = fc.nat({ max: 50 });
const percent = fc.nat({ max: 130 });

// Small ones are reserved in advance, large ones need most of the wallet.
const wanted = fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 100, max: 1_500 }));
const least = fc.integer({ min: 1, max: 60 });

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fund" as const),
      user,
      nano: fc.integer({ min: 1, max: 2_000 }),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({ kind: fc.constant("hold" as const), node, user, wanted, least }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("replace" as const), which, wanted, least }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("release" as const), which }) },
  {
    weight: 7,
    arbitrary: fc.record({ kind: fc.constant("settle" as const), which, percent, twice: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("send" as const), which, output: fc.nat({ max: 100 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("flush" as const), node }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("crash" as const), node, isTakenOver: fc.boolean() }),
  },
);

const freeze: fc.Arbitrary<Step> = fc.record({ kind: fc.constant("freeze" as const), node });

/** Long runs: by default most would end before anything is reserved twice. */
const STEPS = { minLength: 1, maxLength: 40, size: "max" } as const;
const POOR_NANO = 1_000n;
const RICH_NANO = 1_000_000n;

/** A database that this process does not reach while it is frozen, and never again after it is killed. */
function makeReach(db: Db): Db & { kill(): Promise<void>; freeze(): void; thaw(): void } {
  let isDead = false;
  const running = new Set<Promise<unknown>>();
  let thawed = Promise.resolve();
  let resolveThawed = () => {};
  const reach = async <T>(work: () => Promise<T>): Promise<T> => {
    await thawed;
    if (isDead) throw new Error("killed");
    const done = work();
    running.add(done);
    return done.finally(() => running.delete(done));
  };
  const sql: Db["sql"] = Object.assign(
    (strings: TemplateStringsArray, ...values: (string | number | null)[]) =>
      reach(() => db.sql(strings, ...values)),
    {
      text: (...of: Parameters<Db["sql"]["text"]>) => reach(() => db.sql.text(...of)),
      each: (...of: Parameters<Db["sql"]["each"]>) => reach(() => db.sql.each(...of)),
      script: (text: string) => reach(() => db.sql.script(text)),
    },
  );
  return {
    ...db,
    sql,
    begin: (mode, work) => reach(() => db.begin(mode, work)),
    /** Resolves when the server has ended the transactions that it was running. */
    async kill() {
      isDead = true;
      await Promise.allSettled(running);
    },
    freeze() {
      const { promise, resolve } = Promise.withResolvers<void>();
      thawed = promise;
      resolveThawed = resolve;
    },
    thaw: () => resolveThawed(),
  };
}

/** Processes one after the other on one data folder. */
class Node {
  readonly #db: Db;
  readonly #name: string;
  readonly #dir = mkdtempSync(join(tmpdir(), "gateway-node-"));
  #life = 0;
  reach: ReturnType<typeof makeReach>;
  engine: BillingUnderTest;

  constructor(db: Db, name: string) {
    this.#db = db;
    this.#name = name;
    this.reach = makeReach(db);
    this.engine = this.#open();
  }

  async beat(): Promise<void> {
    await writeHeartbeat(this.#db, describeProcess(this.engine.processId, Date.now()));
  }

  async restart(): Promise<void> {
    this.reach = makeReach(this.#db);
    this.engine = this.#open();
    await this.recoverDead();
  }

  async kill(): Promise<void> {
    await this.reach.kill();
    await this.engine.stop();
    await this.declareDead();
  }

  /** Other nodes find that its process does not run. */
  async declareDead(): Promise<void> {
    await this.beat();
    await this.#db.sql`UPDATE process SET pid = ${DEAD_PID} WHERE id = ${this.engine.processId}`;
  }

  /** Reads the files of its own folder, and settles what other dead processes left in the database. */
  async recoverDead(): Promise<void> {
    await this.beat();
    const recovery = await recover(this.#db, this.engine);
    await recovery.stop();
  }

  #open(): BillingUnderTest {
    return makeBilling(this.reach, {
      dir: this.#dir,
      processId: `inc_${this.#name}_${++this.#life}`,
      limits: { ...limits.billingEngine, progressMs: 0, checkpointMs: 0 },
      writeBehind: { checkIntervalMs: 5, smallBatchDelayMs: 30, largeBatchDelayMs: 30 },
    });
  }
}

interface OpenRequest {
  id: string;
  node: number;
  user: number;
  amount: bigint;
  price: bigint;
  isSent: boolean;
  output: number;
  /** Its hold was released. */
  isUnpaid: boolean;
}

/** Progress reaches the journal by a timer that is due before this one, and by the work it leaves for later turns. */
async function untilJournaled(): Promise<void> {
  await Bun.sleep(5);
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

class Run {
  readonly #db: Db;
  readonly #runId: string;
  readonly #nodes: Node[];
  readonly #balance = [0n, 0n];
  readonly #charged = new Map<string, bigint>();
  #open: OpenRequest[] = [];
  #made = 0;

  constructor(db: Db, runId: string) {
    this.#db = db;
    this.#runId = runId;
    this.#nodes = [new Node(db, `${runId}_a`), new Node(db, `${runId}_b`)];
  }

  async play(steps: readonly Step[], fundsNano: bigint): Promise<void> {
    for (const one of this.#nodes) await one.beat();
    for (const index of [0, 1]) await this.#fund(index, fundsNano);
    for (const one of steps) await this.#playStep(one);
    while (this.#open.length > 0) await this.#settle(0, 50, false);
    await this.#check();
    for (const { engine } of this.#nodes) await engine.stop();
    expect(
      await this.#db.sql`SELECT * FROM wallet_reservation WHERE process_id LIKE ${`inc_${this.#runId}_%`}`,
    ).toEqual([]);
    expect(await this.#db.sql`SELECT * FROM hold WHERE process_id LIKE ${`inc_${this.#runId}_%`}`).toEqual(
      [],
    );
    const { findings } = await reconcileLedger(this.#db, {
      nowMs: Date.now(),
      holdAgeMaxMs: 3_600_000,
      findingsMax: 10,
    });
    expect(findings).toEqual([]);
  }

  async #playStep(one: Step): Promise<void> {
    switch (one.kind) {
      case "fund":
        return this.#fund(one.user, BigInt(one.nano));
      case "hold":
        return this.#hold(one);
      case "replace":
        return this.#replace(one);
      case "release":
        return this.#release(one.which);
      case "settle":
        return this.#settle(one.which, one.percent, one.twice);
      case "send":
        return this.#send(one.which, one.output);
      case "flush":
        return this.#node(one.node).engine.flush();
      case "crash":
        return this.#crash(one.node, one.isTakenOver);
      case "freeze":
        return this.#freeze(one.node);
    }
  }

  #node(index: number): Node {
    const found = this.#nodes[index];
    if (found === undefined) throw new Error("no such node");
    return found;
  }

  #user(index: number): string {
    return `u_${this.#runId}_${index}`;
  }

  async #fund(index: number, nano: bigint): Promise<void> {
    await addFunds(this.#db, this.#user(index), nano);
    this.#balance[index] = (this.#balance[index] ?? 0n) + nano;
  }

  /** As if there were no reservations at all: the node has what the whole wallet has. */
  async #hold({ node: at, user: payer, wanted, least }: Extract<Step, { kind: "hold" }>): Promise<void> {
    const id = `r_${this.#runId}_${++this.#made}`;
    const wantedNano = BigInt(wanted);
    const leastNano = BigInt(Math.min(wanted, least));
    const request = buildHoldRequest(id, { userId: this.#user(payer), wantedNano, leastNano });
    const result = await this.#node(at).engine.hold({ ...request, inputTokens: INPUT_TOKENS });
    const amount = this.#checkResult(result, request, this.#available(payer));
    if (amount === null) return;
    const progress = { isSent: false, output: 0 };
    this.#open.push({ id, node: at, user: payer, amount, price: 1n, isUnpaid: false, ...progress });
  }

  #available(payer: number): bigint {
    const held = this.#open.filter((one) => one.user === payer).reduce((sum, one) => sum + one.amount, 0n);
    return (this.#balance[payer] ?? 0n) - held;
  }

  /** Returns the amount; null if nothing is held. */
  #checkResult(result: HoldResult, { wantedNano, leastNano }: HoldRequest, available: bigint): bigint | null {
    if (available < 0n) expect(result).toEqual({ kind: "in_debt", debtNano: -available });
    else if (available < leastNano)
      expect(result).toEqual({ kind: "short", availableNano: available, resetsAtMs: null });
    else {
      const amountNano = wantedNano < available ? wantedNano : available;
      expect(result).toEqual({ kind: "held", amountNano, subscriptionId: null });
      return amountNano;
    }
    return null;
  }

  async #replace({
    which: index,
    wanted: most,
    least: min,
  }: Extract<Step, { kind: "replace" }>): Promise<void> {
    const request = this.#open[index % Math.max(1, this.#open.length)];
    if (request === undefined) return;
    const userId = this.#user(request.user);
    const amounts = { wantedNano: BigInt(most), leastNano: BigInt(Math.min(most, min)) };
    const change = { userId, ...amounts, tariff: NEXT_TARIFF, inputTokens: INPUT_TOKENS };
    const holdRequest = buildHoldRequest(request.id, change);
    const replacing = this.#node(request.node).engine.replaceHold(holdRequest);
    if (await this.#endIfTakenOver(request, replacing)) return;
    const amount = this.#checkResult(
      await replacing,
      holdRequest,
      this.#available(request.user) + request.amount,
    );
    // Either way no account is processing the request.
    Object.assign(request, { isSent: false, output: 0 });
    if (amount !== null) Object.assign(request, { amount, price: NEXT_PRICE, isUnpaid: false });
  }

  async #release(index: number): Promise<void> {
    const request = this.#open[index % Math.max(1, this.#open.length)];
    if (request === undefined) return;
    const releasing = this.#node(request.node).engine.releaseHold(request.id);
    if (await this.#endIfTakenOver(request, releasing)) return;
    await releasing;
    Object.assign(request, { amount: 0n, isUnpaid: true, isSent: false, output: 0 });
  }

  /** The other node has charged an estimate: the request ends with an error, and nothing is charged. */
  async #endIfTakenOver(request: OpenRequest, changing: Promise<unknown>): Promise<boolean> {
    const [{ status }] = await Promise.allSettled([changing]);
    if (request.isUnpaid || (await findUsage(this.#db, request.id)) === null) return false;
    expect(status).toBe("rejected");
    await expect(changing).rejects.toBeInstanceOf(BillingUnavailable);
    await this.#settle(this.#open.indexOf(request), 0, false);
    return true;
  }

  async #settle(index: number, share: number, twice: boolean): Promise<void> {
    if (this.#open.length === 0) return;
    const [request] = this.#open.splice(index % this.#open.length, 1);
    if (request === undefined) return;
    const nano = (request.amount * BigInt(share)) / 100n;
    const settlement = buildTestSettlement(request.id, nano, this.#user(request.user));
    const { engine } = this.#node(request.node);
    if (request.isUnpaid) {
      engine.push({ ...settlement.row, payer: null, tariffId: null });
      return this.#charge(request, 0n);
    }
    await Promise.all([engine.settle(settlement), ...(twice ? [engine.settle(settlement)] : [])]);
    this.#charge(request, nano);
    // The nodes are notified of a debt, which their reservations may have to cover.
    if (share > 100) for (const one of this.#nodes) await one.engine.handleRecalls();
  }

  #charge({ id, user: payer }: OpenRequest, nano: bigint): void {
    this.#charged.set(id, nano);
    this.#balance[payer] = (this.#balance[payer] ?? 0n) - nano;
  }

  #send(index: number, output: number): void {
    const request = this.#open[index % Math.max(1, this.#open.length)];
    if (request === undefined || request.isUnpaid) return;
    const { engine } = this.#node(request.node);
    engine.recordDispatch(request.id, "acc", "gpt");
    engine.checkpoint(request.id, output);
    request.isSent = true;
    request.output = Math.max(request.output, output);
  }

  /** The other node may recover what it finds in the database before the process returns with its journal. */
  async #crash(at: number, isTakenOver: boolean): Promise<void> {
    const dead = this.#node(at);
    await untilJournaled();
    const lost = this.#open.filter((one) => one.node === at && !one.isUnpaid);
    await dead.kill();
    // The progress of a stored hold is written by a transaction, which the kill may have prevented.
    const ids = lost.map(({ id }) => id);
    const stored = await findHolds(this.#db, ids);
    const estimates = await Promise.all(ids.map((id) => findUsage(this.#db, id)));
    if (isTakenOver) await this.#node(1 - at).recoverDead();
    await dead.restart();
    for (const [index, request] of lost.entries()) {
      const hold = stored.get(request.id);
      const isSent = hold === undefined ? request.isSent : hold.state === "dispatched";
      const tokens = BigInt(INPUT_TOKENS + (hold?.outputTokens ?? request.output));
      const cost = isSent ? tokens * request.price : 0n;
      // A takeover while the node was frozen has charged an estimate, which only a real count replaces.
      this.#charge(request, estimates[index]?.chargedNano ?? (cost < request.amount ? cost : request.amount));
    }
    this.#open = this.#open.filter((one) => one.node !== at);
  }

  /** Stopped while the other node takes its reservations, and then continued. */
  async #freeze(at: number): Promise<void> {
    const frozen = this.#node(at);
    await eventually(() => this.#isProgressStored(at));
    frozen.reach.freeze();
    await frozen.declareDead();
    await this.#node(1 - at).recoverDead();
    frozen.reach.thaw();
    await frozen.beat();
  }

  /** The progress of a stored hold is written by a later transaction. A takeover before it charges without it. */
  async #isProgressStored(at: number): Promise<boolean> {
    const own = this.#open.filter((one) => one.node === at);
    const ids = own.map(({ id }) => id);
    const stored = await findHolds(this.#db, ids);
    return own.every(({ id, isSent, output }) => {
      const hold = stored.get(id);
      return hold === undefined || ((hold.state === "dispatched") === isSent && hold.outputTokens >= output);
    });
  }

  async #check(): Promise<void> {
    for (const index of [0, 1]) {
      for (const { engine } of this.#nodes) await engine.flushUser(this.#user(index));
      const held = this.#open.filter((one) => one.user === index).reduce((sum, one) => sum + one.amount, 0n);
      expect(await readWallet(this.#db, this.#user(index))).toEqual({
        balanceNano: this.#balance[index] ?? 0n,
        heldNano: held,
      });
    }
    for (const [id, nano] of this.#charged)
      expect({ id, nano: (await findUsage(this.#db, id))?.chargedNano }).toEqual({ id, nano });
  }
}

let db: Db;
let runs = 0;

usePostgres((opened) => {
  ({ db } = opened);
});

test("two nodes hold, charge and recover as one, whatever each has reserved", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, STEPS), (steps) => new Run(db, `poor${++runs}`).play(steps, POOR_NANO)),
    { numRuns: 25, endOnFailure: true },
  );
}, 120_000);

test("a frozen node that returns after its takeover charges every request once", async () => {
  const withFreezes = fc.oneof({ weight: 12, arbitrary: step }, { weight: 1, arbitrary: freeze });
  await fc.assert(
    fc.asyncProperty(fc.array(withFreezes, STEPS), (steps) =>
      new Run(db, `rich${++runs}`).play(steps, RICH_NANO),
    ),
    { numRuns: 25, endOnFailure: true },
  );
}, 120_000);
