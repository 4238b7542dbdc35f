/** A gateway whose group charges, with a user who pays, and functions that read its ledger. */

import { expect } from "bun:test";
import { reconcileLedger } from "../../src/billing/maintenance/reconciliation.ts";
import type { Nano } from "../../src/money/nano.ts";
import { type Db, transaction } from "../../src/store/engine/db.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { findEntry, type Transfer } from "../../src/store/money/ledger.ts";
import { listSetAsideHolds, type SetAsideHold } from "../../src/store/money/set-aside-holds.ts";
import { sumReservations } from "../../src/store/money/wallet-reservations.ts";
import { readWallet, type Wallet } from "../../src/store/money/wallets.ts";
import { findUsage, type UsageRow } from "../../src/store/usage/usage.ts";
import { eventually } from "./eventually.ts";
import { type GatewayOptions, type RunningGateway, startTestGateway, TEST_KEY } from "./running-gateway.ts";

export const PAYER = "payer@example.com";
/** USD for a million tokens: all different, so that a mix-up shows. */
export const PRICE = { input: "2.50", cached_input: "0.625", output: "10.000001" } as const;

export interface PaidModel {
  upstream: string;
  price?: object;
  /** Further fields of the model. */
  more?: object;
}

export interface PaidSetup {
  models?: Readonly<Record<string, string | PaidModel>>;
  /** Of the payer. */
  balance?: string;
  subscriptions?: readonly object[];
  plans?: readonly object[];
  /** Request policies. */
  policies?: readonly object[];
  billing?: object;
  /** Further fields of the one group. */
  group?: object;
  /** Further accounts; the simulator's account serves all other models. */
  accounts?: readonly object[];
  /** Further parts of the file, added to those of this one. */
  users?: readonly object[];
  groups?: readonly object[];
  keys?: readonly object[];
}

/** Environment variables of the configuration file. */
export const SIMULATOR = `$${"{SIMULATOR_URL}"}`;
const ALL = ["chat", "responses", "embeddings", "images"];

export function paidFile(setup: PaidSetup): string {
  const models = Object.entries(setup.models ?? { paid: "sim-fast" }).map(([id, how]) => ({
    id,
    ...(typeof how === "string" ? { upstream: how } : how),
  }));
  const accounts = setup.accounts ?? [
    {
      name: "sim",
      kind: "openai",
      base_url: SIMULATOR,
      credential: "credential",
      private_network: true,
      models: Object.fromEntries(models.map(({ id, upstream }) => [id, upstream])),
    },
  ];
  const accountNames = accounts.map((account) => ("name" in account ? account.name : ""));
  return JSON.stringify({
    models: models.map(({ id, price = PRICE, more }) => ({ id, interfaces: ALL, price, ...more })),
    accounts,
    plans: setup.plans ?? [],
    request_policies: setup.policies ?? [],
    groups: [
      {
        name: "paying",
        interfaces: ALL,
        models: models.map(({ id }) => id),
        accounts: accountNames,
        billing: { charge: "balance", ...setup.billing },
        ...setup.group,
      },
      ...(setup.groups ?? []),
    ],
    users: [
      {
        email: PAYER,
        ...(setup.balance === undefined ? {} : { balance: setup.balance }),
        ...(setup.subscriptions === undefined ? {} : { subscriptions: setup.subscriptions }),
      },
      ...(setup.users ?? []),
    ],
    keys: [{ name: "test", user: PAYER, group: "paying", secret: TEST_KEY }, ...(setup.keys ?? [])],
  });
}

export interface PaidGateway extends RunningGateway {
  records: BillingRecords;
}

export async function startPaidGateway(
  setup: PaidSetup,
  options: Omit<GatewayOptions, "file"> = {},
): Promise<PaidGateway> {
  const gateway = await startTestGateway({ tokens: "o200k", ...options, file: paidFile(setup) });
  return { ...gateway, records: openBillingRecords(gateway.installation.db) };
}

export interface BillingRecords {
  /** Without the money that a node has reserved for further requests. */
  wallet(email?: string): Promise<Wallet>;
  /** Waits until the row is written. */
  row(requestId: string): Promise<UsageRow>;
  findRow(requestId: string): Promise<UsageRow | null>;
  charge(requestId: string): Promise<Transfer | null>;
  setAside(): Promise<SetAsideHold[]>;
  holds(): Promise<number>;
  /** Fails the test with the findings of the audit. */
  expectReconciled(): Promise<void>;
}

export function openBillingRecords(db: Db): BillingRecords {
  return {
    async wallet(email = PAYER) {
      const user = await findUserByEmail(db, email);
      if (user === null) throw new Error(`there is no user ${email}`);
      return transaction(db, async (tx) => {
        const { balanceNano, heldNano } = await readWallet(tx, user.id);
        return { balanceNano, heldNano: heldNano - (await sumReservations(tx, user.id)) };
      });
    },
    row: (requestId) => eventually(() => findUsage(db, requestId)),
    findRow: (requestId) => findUsage(db, requestId),
    charge: (requestId) => findEntry(db, `charge:${requestId}`),
    setAside: () => listSetAsideHolds(db, 10),
    holds: async () => (await db.sql`SELECT request_id FROM hold`).length,
    async expectReconciled() {
      const report = await reconcileLedger(db, {
        nowMs: Date.now(),
        holdAgeMaxMs: 3_600_000,
        findingsMax: 10,
      });
      expect(report.findings).toEqual([]);
    },
  };
}

/** Computes a bill independently: counts at USD a million, times a multiplier, rounded up once. */
export function bill(lines: readonly (readonly [count: number, usd: string])[], multiplier = "1"): Nano {
  const exact = lines.reduce((sum, [count, usd]) => sum + BigInt(count) * millionths(usd), 0n);
  const scaled = exact * millionths(multiplier);
  // Micro-dollars a million are pico-dollars each, and the multiplier has six decimals: nine digits too many.
  return (scaled + 999_999_999n) / 1_000_000_000n;
}

function millionths(decimal: string): bigint {
  const [whole = "0", rest = ""] = decimal.split(".");
  return BigInt(whole + rest.padEnd(6, "0"));
}

/** The id of a response that was read to its end. */
export async function doneId(response: Response): Promise<string> {
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  return response.headers.get("x-request-id") ?? "";
}
