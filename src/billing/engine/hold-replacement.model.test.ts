/** Compares replaced and released holds with an in-memory model, for random operations, settlements, kills and restarts. */

import { expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock } from "../../base/clock.ts";
import type { Nano } from "../../money/nano.ts";
import { makeTariff, type Tariff } from "../../money/tariff.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { findHolds } from "../../store/money/holds.ts";
import { putPlan } from "../../store/money/plans.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import type { HoldRequest, HoldResult } from "./billing-types.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  LIMITS,
  makeBilling,
  recover,
} from "./direct-billing.test-support.ts";
import { MortalDb } from "./mortal-db.test-support.ts";

const NOON = Date.parse("2027-03-10T12:00:00Z");
const MIDNIGHT = Date.parse("2027-03-11T00:00:00Z");
const clock = { ...systemClock, nowMs: () => NOON };
const LIMIT_NANO = 1_500n;
const FUNDS_NANO = 2_000n;
const INPUT_TOKENS = 20;
/** Nano-USD for each token, by step of a request. The usage row of a recovered request shows which hold was charged. */
const TARIFFS = [1, 2, 3, 5].map((nano) => makeTariff({ input: `0.00${nano}`, output: `0.00${nano}` }));

type Payer = HoldRequest["charge"];
interface Asked {
  user: number;
  payer: Payer;
  wanted: number;
  least: number;
  firm: number;
}
type Operation =
  | ({ kind: "hold" } & Asked)
  | ({ kind: "replace"; which: number } & Asked)
  | { kind: "release"; which: number };
type Step =
  | { kind: "fund"; user: number; nano: number }
  | { kind: "settle"; which: number; percent: number }
  | { kind: "send"; which: number; output: number }
  /** Moves every hold of a wallet reservation to the database. */
  | { kind: "check" }
  /** Submitted at once. With a kill, the process ends after this number of statements and commits. */
  | { kind: "burst"; operations: Operation[]; killAfter: number | null };

const user = fc.nat({ max: 1 });
const which = fc.nat({ max: 50 });
const asked = {
  user,
  payer: fc.constantFrom<Payer>("balance", "subscription"),
  wanted: fc.oneof(fc.nat({ max: 60 }), fc.nat({ max: 2_500 })),
  least: fc.nat({ max: 400 }),
  firm: fc.nat({ max: 1_200 }),
};
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("hold" as const), ...asked }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("replace" as const), which, ...asked }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("release" as const), which }) },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("fund" as const),
      user,
      nano: fc.integer({ min: 1, max: 900 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("settle" as const), which, percent: fc.nat({ max: 120 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("send" as const), which, output: fc.nat({ max: 100 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "check" as const }) },
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant("burst" as const),
      operations: fc.oneof(
        { weight: 3, arbitrary: fc.array(operation, { minLength: 1, maxLength: 1 }) },
        { weight: 2, arbitrary: fc.array(operation, { minLength: 2, maxLength: 6 }) },
      ),
      killAfter: fc.oneof(
        { weight: 12, arbitrary: fc.constant(null) },
        { weight: 1, arbitrary: fc.nat({ max: 40 }) },
      ),
    }),
  },
);

/** A hold as it stands, or as it may stand after a kill. */
interface ModelHold {
  readonly payer: Payer;
  readonly amount: Nano;
  readonly tariff: Tariff;
  readonly price: Nano;
  isSent: boolean;
  output: number;
}

interface ModelRequest {
  readonly id: string;
  readonly user: number;
  steps: number;
  /** Null while the request is unpaid. */
  hold: ModelHold | null;
}

interface Submitted {
  readonly request: ModelRequest;
  readonly operation: Operation;
  readonly holdRequest: HoldRequest | null;
  /** In the model, before anything of the burst has happened. */
  readonly predicted: HoldResult | null;
}

class Run {
  readonly #db: Db;
  readonly #name: string;
  readonly #options: Parameters<typeof makeBilling>[1];
  readonly #dir = mkdtempSync(join(tmpdir(), "gateway-model-"));
  readonly #balance = [FUNDS_NANO, FUNDS_NANO];
  readonly #used = [0n, 0n];
  readonly #open: ModelRequest[] = [];
  #made = 0;
  #lives = 0;
  #mortal: MortalDb;
  #engine: BillingUnderTest;

  constructor(db: Db, name: string, options: Parameters<typeof makeBilling>[1]) {
    this.#db = db;
    this.#name = name;
    this.#options = options;
    this.#mortal = new MortalDb(db);
    this.#engine = this.#start();
  }

  async play(steps: readonly Step[]): Promise<void> {
    for (const index of [0, 1]) await this.#createUser(this.#user(index));
    for (const one of steps) {
      await this.#playStep(one);
    }
    while (this.#open.length > 0) await this.#settle(0, 50);
    await this.#check();
    await this.#engine.stop();
    const options = { nowMs: NOON, holdAgeMaxMs: 3_600_000, findingsMax: 10 };
    expect((await reconcileLedger(this.#db, options)).findings).toEqual([]);
  }

  #start(): BillingUnderTest {
    this.#mortal = new MortalDb(this.#db);
    const processId = `inc_${this.#name}_${++this.#lives}`;
    const limits = { ...LIMITS, progressMs: 0, checkpointMs: 0 };
    return makeBilling(this.#mortal.db, { ...this.#options, clock, limits, dir: this.#dir, processId });
  }

  #user(index: number): string {
    return `u_${this.#name}_${index}`;
  }

  async #createUser(userId: string): Promise<void> {
    await putUser(this.#db, userRecord(userId));
    await addFunds(this.#db, userId, FUNDS_NANO);
    const windows = [{ per: "day", usd: "0.0000015", counted: "calendar" } as const];
    await putPlan(this.#db, { id: "plan", name: "plan", timeZone: "UTC", windows, createdAtMs: 0 });
    const term = { startsAtMs: 0, endsAtMs: null, renews: "none", status: "active", createdAtMs: 0 } as const;
    await putSubscription(this.#db, { id: `sub-${userId}`, userId, planId: "plan", priority: 1, ...term });
  }

  async #playStep(one: Step): Promise<void> {
    if (one.kind === "fund") {
      await addFunds(this.#db, this.#user(one.user), BigInt(one.nano));
      this.#balance[one.user] = (this.#balance[one.user] ?? 0n) + BigInt(one.nano);
    } else if (one.kind === "settle") await this.#settle(one.which, one.percent);
    else if (one.kind === "check") await this.#check();
    else if (one.kind === "send") this.#send(one.which, one.output);
    else await this.#burst(one.operations, one.killAfter);
  }

  #send(index: number, output: number): void {
    const request = this.#open[index % Math.max(1, this.#open.length)];
    if (request === undefined || request.hold === null) return;
    this.#engine.recordDispatch(request.id, "acc", "gpt");
    this.#engine.checkpoint(request.id, output);
    request.hold.isSent = true;
    request.hold.output = Math.max(request.hold.output, output);
  }

  async #settle(index: number, percent: number): Promise<void> {
    if (this.#open.length === 0) return;
    const [request] = this.#open.splice(index % this.#open.length, 1);
    if (request === undefined) return;
    const { hold, id } = request;
    const userId = this.#user(request.user);
    if (hold === null) {
      const { row } = buildTestSettlement(id, 0n, userId);
      return this.#engine.push({ ...row, atMs: NOON, payer: null, tariffId: null });
    }
    const nano = (hold.amount * BigInt(percent)) / 100n;
    const { row, chargedNano } = buildTestSettlement(id, nano, userId);
    const settlement = {
      chargedNano,
      row: { ...row, atMs: NOON, payer: hold.payer, tariffId: hold.tariff.id },
    };
    await Promise.all([this.#engine.settle(settlement), this.#engine.settle(settlement)]);
    this.#charge(request, hold.payer, nano);
  }

  #charge({ user: payer }: ModelRequest, by: Payer, nano: Nano): void {
    if (by === "balance") this.#balance[payer] = (this.#balance[payer] ?? 0n) - nano;
    else this.#used[payer] = (this.#used[payer] ?? 0n) + nano;
  }

  #held(index: number, by: Payer, except: ModelRequest | null = null): Nano {
    return this.#open
      .filter((one) => one !== except && one.user === index && one.hold?.payer === by)
      .reduce((sum, { hold }) => sum + (hold?.amount ?? 0n), 0n);
  }

  /** As if the old hold of the request did not exist. */
  #predict(
    request: ModelRequest,
    { charge, wantedNano, leastNano, firmNano = leastNano }: HoldRequest,
  ): HoldResult {
    const index = request.user;
    const isBalance = charge === "balance";
    const total = isBalance ? (this.#balance[index] ?? 0n) : clamp(LIMIT_NANO - (this.#used[index] ?? 0n));
    const rest = total - this.#held(index, charge, request);
    const available = isBalance ? rest : clamp(rest);
    const subscriptionId = isBalance ? null : `sub-${this.#user(index)}`;
    const held = (amountNano: Nano): HoldResult => ({ kind: "held", amountNano, subscriptionId });
    if (wantedNano === 0n) return held(0n);
    if (available < 0n) return { kind: "in_debt", debtNano: -available };
    if (firmNano > leastNano && available < firmNano && total >= firmNano)
      return { kind: "blocked", availableNano: available, neededNano: firmNano };
    if (available < leastNano)
      return { kind: "short", availableNano: available, resetsAtMs: isBalance ? null : MIDNIGHT };
    return held(wantedNano < available ? wantedNano : available);
  }

  #prepare(operations: readonly Operation[]): Submitted[] {
    const taken = new Set<ModelRequest>();
    return operations.flatMap((one) => {
      const request = this.#choose(one);
      if (request === undefined || taken.has(request)) return [];
      taken.add(request);
      if (one.kind === "release") return { request, operation: one, holdRequest: null, predicted: null };
      const wantedNano = BigInt(one.wanted);
      const leastNano = BigInt(Math.min(one.least, one.wanted));
      const holdRequest = buildHoldRequest(request.id, {
        userId: this.#user(request.user),
        charge: one.payer,
        wantedNano,
        leastNano,
        firmNano: BigInt(Math.min(one.wanted, Math.max(one.firm, Number(leastNano)))),
        inputTokens: INPUT_TOKENS,
        tariff: TARIFFS[request.steps % TARIFFS.length] ?? failNoTariff(),
      });
      request.steps++;
      return { request, operation: one, holdRequest, predicted: this.#predict(request, holdRequest) };
    });
  }

  #choose(one: Operation): ModelRequest | undefined {
    if (one.kind !== "hold") return this.#open[one.which % Math.max(1, this.#open.length)];
    return { id: `r_${this.#name}_${++this.#made}`, user: one.user, steps: 0, hold: null };
  }

  async #burst(operations: readonly Operation[], killAfter: number | null): Promise<void> {
    const submitted = this.#prepare(operations);
    if (killAfter !== null) {
      await this.#writeProgress();
      this.#mortal.dieAfter(killAfter);
    }
    const results = Promise.all(submitted.map((one) => this.#submit(one)));
    if (killAfter === null) return this.#apply(submitted, await results);
    results.catch(() => {});
    const survivors = await Promise.race([results, this.#mortal.died]);
    if (survivors !== undefined) {
      this.#apply(submitted, survivors);
      this.#mortal.dieAfter(Number.POSITIVE_INFINITY);
      await this.#writeProgress();
    }
    await this.#restart(survivors === undefined ? submitted : []);
  }

  /** A kill would lose the progress of the last milliseconds. */
  async #writeProgress(): Promise<void> {
    await untilJournaled();
    await this.#engine.flush();
  }

  async #submit({ request, operation: { kind }, holdRequest }: Submitted): Promise<HoldResult | null> {
    if (holdRequest === null) {
      await this.#engine.releaseHold(request.id);
      return null;
    }
    return kind === "hold" ? this.#engine.hold(holdRequest) : this.#engine.replaceHold(holdRequest);
  }

  #apply(submitted: readonly Submitted[], results: readonly (HoldResult | null)[]): void {
    for (const [
      index,
      {
        request,
        operation: { kind },
        holdRequest,
        predicted,
      },
    ] of submitted.entries()) {
      const result = results[index] ?? null;
      if (holdRequest === null || result === null) {
        request.hold = null;
        continue;
      }
      // Operations that are submitted together may be decided in any order.
      if (submitted.length === 1) expect(result).toEqual(predicted ?? failNoPrediction());
      if (result.kind === "held") {
        expect(result.amountNano).toBeLessThanOrEqual(holdRequest.wantedNano);
        expect(result.amountNano).toBeGreaterThanOrEqual(holdRequest.leastNano);
        request.hold = buildModelHold(holdRequest, result.amountNano);
        if (kind === "hold") this.#open.push(request);
      } else if (request.hold !== null) {
        // No account is processing the request.
        request.hold.isSent = false;
        request.hold.output = 0;
      }
    }
    for (const index of [0, 1])
      if (this.#hasNew(submitted, index))
        expect(this.#held(index, "balance")).toBeLessThanOrEqual(this.#balance[index] ?? 0n);
  }

  /** Whether a hold of the burst was made from the user's balance. */
  #hasNew(submitted: readonly Submitted[], index: number): boolean {
    return submitted.some(
      ({ request, holdRequest }) =>
        request.user === index &&
        holdRequest?.charge === "balance" &&
        request.hold?.tariff === holdRequest.tariff &&
        request.hold.amount > 0n,
    );
  }

  /** Requests of the burst have one of two holds, or none. Their usage rows show which one was charged. */
  async #restart(uncertain: readonly Submitted[]): Promise<void> {
    this.#mortal.dieAfter(0);
    await this.#engine.stop();
    this.#engine = this.#start();
    const recovery = await recover(this.#db, this.#engine, { clock });
    await recovery.stop();
    await recovery.unregister();
    for (const { request, operation: one, holdRequest } of uncertain) {
      const row = await findUsage(this.#db, request.id);
      if (row === null) {
        // Nothing was held, or no more.
        expect(one.kind !== "replace" || request.hold === null).toBe(true);
        request.hold = null;
      } else if (row.tariffId === holdRequest?.tariff.id)
        request.hold = buildModelHold(holdRequest, BigInt(Number.MAX_SAFE_INTEGER));
      else if (one.kind === "hold") throw new Error("The request was charged by a hold that was never made.");
      if (one.kind === "hold") this.#open.push(request);
    }
    for (const request of this.#open.splice(0)) {
      const { hold } = request;
      if (hold === null) continue;
      const cost = hold.isSent ? BigInt(INPUT_TOKENS + hold.output) * hold.price : 0n;
      const nano = cost < hold.amount ? cost : hold.amount;
      expect(await findUsage(this.#db, request.id)).toMatchObject({
        chargedNano: nano,
        payer: hold.payer,
        tariffId: hold.tariff.id,
      });
      this.#charge(request, hold.payer, nano);
    }
  }

  /** The sum of what each payer has, holds and has paid. */
  async #check(): Promise<void> {
    for (const index of [0, 1]) {
      const userId = this.#user(index);
      await this.#engine.flushUser(userId);
      expect(await readWallet(this.#db, userId)).toEqual({
        balanceNano: this.#balance[index] ?? 0n,
        heldNano: this.#held(index, "balance"),
      });
      const windows = await this.#db.sql`
        SELECT CAST(used_nano AS TEXT) AS used, CAST(held_nano AS TEXT) AS held FROM subscription_window
        WHERE subscription_id = ${`sub-${userId}`}`;
      for (const { used, held } of windows)
        expect({ used, held }).toEqual({
          used: String(this.#used[index]),
          held: String(this.#held(index, "subscription")),
        });
    }
    const paid = this.#open.filter(({ hold }) => hold !== null);
    const stored = await findHolds(
      this.#db,
      this.#open.map(({ id }) => id),
    );
    expect(
      new Map([...stored].map(([id, { amountNano, tariffId }]) => [id, { amountNano, tariffId }])),
    ).toEqual(
      new Map(
        paid.map(({ id, hold }) => [id, { amountNano: hold?.amount ?? 0n, tariffId: hold?.tariff.id ?? "" }]),
      ),
    );
  }
}

const clamp = (nano: Nano): Nano => (nano > 0n ? nano : 0n);

function buildModelHold({ charge, tariff }: HoldRequest, amount: Nano): ModelHold {
  const price = BigInt([1, 2, 3, 5][TARIFFS.indexOf(tariff)] ?? 0);
  return { payer: charge, amount, tariff, price, isSent: false, output: 0 };
}

function failNoTariff(): never {
  throw new Error("There is no tariff.");
}

function failNoPrediction(): never {
  throw new Error("There is no prediction.");
}

/** Progress reaches the journal by a timer that is due before this one, and by the work it leaves for later turns. */
async function untilJournaled(): Promise<void> {
  await Bun.sleep(5);
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

eachEngine(({ open }) => {
  for (const [lane, options] of [
    ["direct billing", {}],
    ["write-behind billing", { writeBehind: {} }],
  ] as const)
    test(`${lane} matches the model after any sequence of replacements, settlements and kills`, async () => {
      const db = await open();
      let runs = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25, size: "max" }), (steps) =>
          new Run(db, `${++runs}`, options).play(steps),
        ),
        { numRuns: db.engine === "sqlite" ? 40 : 10, endOnFailure: true },
      );
    }, 120_000);
});
