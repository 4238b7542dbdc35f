/**
 * An operator beside the traffic of several nodes: books top-ups, refunds charges and changes the prices. Each operation
 * is repeated with its own key until the database confirms it, as a payment system does it.
 */

import { join } from "node:path";
import { systemClock, uuidV7 } from "../../src/base/clock.ts";
import { refund, topUp } from "../../src/billing/operations/operations.ts";
import { MoneyOperationRejected } from "../../src/billing/operations/rejection.ts";
import type { Run } from "../support/gateway-process.ts";
import { checked, type Finding, figure } from "./fault.ts";
import type { NodeCluster } from "./node-cluster.ts";
import type { PriceOracle } from "./price-oracle.ts";
import { buildConfiguration, type ListPrice, PRICE, type Setup } from "./setup.ts";

const PAUSE_MS = 400;
const RETRY_MS = 500;
const TRIES_MAX = 120;
/** Of so many operations, one changes the prices: it starts a program. */
const PRICE_CHANGE_EVERY = 8;
const TRIED_FILE = "tried.yaml";
const TOP_UP_NANO = 1_234_567_891n;

export interface OperatorDuties {
  /** Whether it books top-ups and refunds, which belong to balances. */
  readonly booksMoney: boolean;
  readonly changesPrices: boolean;
}

interface OperatorOptions extends OperatorDuties {
  readonly cluster: NodeCluster;
  /** That the nodes begin with. */
  readonly setup: Setup;
  readonly prices: PriceOracle;
}

/** What was booked beside the charges. */
export interface OperatorSums {
  readonly toppedUpNano: bigint;
  readonly refundedNano: bigint;
  readonly priceChanges: number;
}

export class Operator {
  readonly #options: OperatorOptions;
  readonly #refunded = new Set<string>();
  readonly #running: Promise<void>;
  #toppedUpNano = 0n;
  #refundedNano = 0n;
  #priceChanges = 0;
  #setup: Setup;
  #price: ListPrice = PRICE;
  #isStopping = false;

  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#setup = options.setup;
    this.#running = this.#work();
    // `stop` reports a failure.
    this.#running.catch(() => {});
  }

  /** Resolves when the last operation is confirmed. */
  async stop(): Promise<OperatorSums> {
    this.#isStopping = true;
    await this.#running;
    return {
      toppedUpNano: this.#toppedUpNano,
      refundedNano: this.#refundedNano,
      priceChanges: this.#priceChanges,
    };
  }

  async #work(): Promise<void> {
    for (let operation = 1; !this.#isStopping; operation += 1) {
      await Bun.sleep(PAUSE_MS);
      const { booksMoney, changesPrices } = this.#options;
      if (changesPrices && operation % PRICE_CHANGE_EVERY === 0) await this.#changePrices();
      else if (booksMoney && operation % 2 === 0) await this.#topUp();
      else if (booksMoney) await this.#refund();
    }
  }

  async #topUp(): Promise<void> {
    const [user] = await this.#untilConfirmed(
      () => this.#options.cluster.db.sql`SELECT user_id FROM wallet ORDER BY RANDOM() LIMIT 1`,
    );
    const order = { actor: "faults", reason: null, idempotencyKey: uuidV7("topup"), provider: "invoice" };
    const userId = String(user?.user_id);
    await this.#untilConfirmed(() => topUp(this.#context, { userId, amountNano: TOP_UP_NANO, ...order }));
    this.#toppedUpNano += TOP_UP_NANO;
  }

  /** Never an estimate: its correction would be left out. */
  async #refund(): Promise<void> {
    const rows = await this.#untilConfirmed(() => this.#options.cluster.rows(0));
    const row = rows.find(
      ({ requestId, chargedNano, flags }) =>
        chargedNano > 0n && !flags.includes("recovered") && !this.#refunded.has(requestId),
    );
    if (row === undefined) return;
    const { requestId, chargedNano } = row;
    this.#refunded.add(requestId);
    const order = { actor: "faults", reason: null, idempotencyKey: `refund-${requestId}` };
    await this.#untilConfirmed(() => refund(this.#context, { requestId, amountNano: "all", ...order }));
    this.#refundedNano += chargedNano;
  }

  async #changePrices(): Promise<void> {
    const { prices } = this.#options;
    this.#priceChanges += 1;
    const output = `${10 + this.#priceChanges}.07`;
    await this.#options.cluster.changeFiles(async () => {
      this.#price = { ...PRICE, output };
      prices.beginChange(this.#price, Date.now());
      await this.#applyFiles();
      prices.confirmChange(Date.now());
    });
  }

  /** The nodes and their files have this setup from now on. */
  async useFile(setup: Setup): Promise<void> {
    await this.#options.cluster.changeFiles(() => {
      this.#setup = setup;
      return this.#applyFiles();
    });
  }

  /** Nodes that start and later price changes apply this setup. */
  async writeFiles(setup: Setup): Promise<void> {
    await this.#options.cluster.changeFiles(() => {
      this.#setup = setup;
      return this.#writeFiles();
    });
  }

  /** Applies it once, without the files of the nodes. */
  async tryFile(setup: Setup): Promise<Run> {
    const { cluster } = this.#options;
    await Bun.write(cluster.buildPath(TRIED_FILE), this.#build(setup));
    return cluster.apply(TRIED_FILE);
  }

  /** A node that starts later applies the file in its folder, so the files change as well. */
  async #applyFiles(): Promise<void> {
    await this.#writeFiles();
    await this.#untilConfirmed(async () => {
      const { code, output } = await this.#options.cluster.apply();
      if (code !== 0) throw new Error(output);
    });
  }

  async #writeFiles(): Promise<void> {
    const file = this.#build(this.#setup);
    for (const { folder } of this.#options.cluster.nodes) await Bun.write(join(folder, "gateway.yaml"), file);
  }

  #build(setup: Setup): string {
    return JSON.stringify(
      buildConfiguration({ ...setup, price: this.#price }, this.#options.cluster.simulator.url),
    );
  }

  get #context() {
    return { db: this.#options.cluster.db, clock: systemClock, newId: uuidV7 };
  }

  /** The database may be away, and a node may have locked the wallet. */
  async #untilConfirmed<T>(work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        if (error instanceof MoneyOperationRejected || tries === TRIES_MAX) throw error;
        await Bun.sleep(RETRY_MS);
      }
    }
  }
}

export function describeOperator(
  { toppedUpNano, refundedNano, priceChanges }: OperatorSums,
  { booksMoney, changesPrices }: OperatorDuties,
): Finding[] {
  const some = (what: string, got: number | bigint, isWanted: boolean) =>
    isWanted ? checked(what, got, "some", got > 0) : figure(what, got);
  return [
    some("topped up, nano-dollars", toppedUpNano, booksMoney),
    some("refunded, nano-dollars", refundedNano, booksMoney),
    some("changes of the prices", priceChanges, changesPrices),
  ];
}
