/** Groups that charge subscriptions: USD windows, in their order, with their reset time. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { cancelGrant } from "../../src/billing/operations/grant.ts";
import { refund } from "../../src/billing/operations/operations.ts";
import { parseUsd } from "../../src/money/nano.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { listSubscriptionStatuses } from "../../src/store/money/subscription-status.ts";
import { expectRejection } from "../support/error-envelope.ts";
import {
  bill,
  doneId,
  PAYER,
  type PaidGateway,
  type PaidSetup,
  PRICE,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(({ records }: PaidGateway) => records.expectReconciled());

const plan = (name: string, usd: string, more: object = {}) => ({
  name,
  windows: [{ per: "day", usd, ...more }],
});

function start(setup: PaidSetup): Promise<PaidGateway> {
  return stopLater(startPaidGateway({ ...setup, billing: { charge: "subscription", ...setup.billing } }));
}

async function readStatuses(gateway: PaidGateway) {
  const { db, clock } = gateway.installation;
  const user = await findUserByEmail(db, PAYER);
  return listSubscriptionStatuses(db, user?.id ?? "", clock.nowMs());
}

const messages = [{ role: "user" as const, content: "Hello" }];
const ask = (gateway: PaidGateway, more: object = {}) =>
  gateway.call("/v1/chat/completions", { model: "paid", messages, ...more });

async function findPayer(gateway: PaidGateway, response: Response): Promise<string | undefined> {
  const id = await doneId(response);
  const row = await gateway.records.row(id);
  expect(row.payer).toBe("subscription");
  const charge = await gateway.records.charge(id);
  expect(charge?.amountNano).toBe(row.chargedNano);
  expect(charge?.debit).toBe(`subscription:${charge?.subscriptionId}`);
  return (await readStatuses(gateway)).find(({ id }) => id === charge?.subscriptionId)?.planName;
}

const NEXT_MIDNIGHT = () => Math.floor(Date.now() / 86_400_000 + 1) * 86_400;

describe("a subscription", () => {
  test.each([false, true])(
    "pays instead of the balance, exact to the nano-USD (stream: %p)",
    async (stream) => {
      const gateway = await start({
        balance: "5.00",
        plans: [plan("pro", "1.00")],
        subscriptions: [{ plan: "pro" }],
      });
      expect(await findPayer(gateway, await ask(gateway, { stream }))).toBe("pro");
      const last = gateway.simulator.ledger.last();
      const cost = bill([
        [last?.inputTokens ?? 0, PRICE.input],
        [last?.outputTokens ?? 0, PRICE.output],
      ]);
      const [pro] = await readStatuses(gateway);
      expect(pro?.windows).toMatchObject([
        { usedNano: cost, heldNano: 0n, remainingNano: parseUsd("1.00") - cost },
      ]);
      expect(await gateway.records.wallet()).toEqual({ balanceNano: parseUsd("5.00"), heldNano: 0n });
    },
  );

  test("is shown by GET /v1/usage with every window, and with the hold during a stream", async () => {
    const windows = [
      { per: "day", usd: "1.00" },
      { per: "month", usd: "10.00", counted: "rolling" },
    ];
    const gateway = await start({
      models: { paid: "sim-fast@events=200,interval=10ms" },
      plans: [{ name: "pro", windows }],
      subscriptions: [{ plan: "pro" }],
    });
    const usage = async () => (await gateway.call("/v1/usage")).json() as Promise<Report>;
    const response = await ask(gateway, { stream: true, max_completion_tokens: 100 });
    const during = await usage();
    const [day, month] = during.billing.subscriptions[0]?.windows ?? [];
    expect(day).toMatchObject({ per: "day", limit: "1.00", used: "0.00", resets_at: NEXT_MIDNIGHT() });
    expect(month).toMatchObject({ per: "month", limit: "10.00", held: day?.held ?? "" });
    expect(Number(day?.held)).toBeGreaterThan(0.001);
    const { chargedNano } = await gateway.records.row(await doneId(response));
    const after = await usage();
    expect(after).toMatchObject({
      billing: { mode: "subscription", currency: "USD", subscriptions: [{ plan: "pro", ends_at: null }] },
      isValid: true,
      planName: "pro",
      unit: "USD",
      remaining: Number(parseUsd("1.00") - chargedNano) / 1e9,
    });
    for (const { used, held } of after.billing.subscriptions[0]?.windows ?? []) {
      expect([parseUsd(used), held]).toEqual([chargedNano, "0.00"]);
    }
  });
  interface Report {
    billing: {
      subscriptions: {
        plan: string;
        windows: { per: string; limit: string; used: string; held: string; resets_at: number }[];
      }[];
    };
    remaining: number;
  }

  test("limits a response to the rest of its tightest window", async () => {
    const windows = [
      { per: "day", usd: "0.001" },
      { per: "month", usd: "10.00" },
    ];
    const gateway = await start({ plans: [{ name: "pro", windows }], subscriptions: [{ plan: "pro" }] });
    const id = await doneId(await ask(gateway));
    const last = gateway.simulator.ledger.last();
    const body = JSON.parse(
      new TextDecoder().decode(gateway.simulator.ledger.findBody(last?.id ?? "") ?? new Uint8Array()),
    );
    expect(body.max_completion_tokens).toBeLessThan(100);
    expect((await gateway.records.row(id)).flags).toEqual(["capped"]);
  });

  test("with an exhausted window rejects with the reset time", async () => {
    const gateway = await start({
      balance: "5.00",
      plans: [plan("tiny", "0.0001")],
      subscriptions: [{ plan: "tiny" }],
    });
    const response = await ask(gateway);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(response.status).toBe(429);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    const when = `${new Date(NEXT_MIDNIGHT() * 1000).toISOString().slice(0, 19)}Z`;
    expect(error).toMatchObject({ type: "usage_limit_reached", resets_at: NEXT_MIDNIGHT() });
    expect(error.message).toContain(`left. The quota resets at ${when}.`);
    expect(gateway.simulator.ledger.totals().requests).toBe(0);
  });

  test("that has not begun, has ended or was cancelled does not pay", async () => {
    const gateway = await start({
      plans: [plan("later", "1.00"), plan("over", "1.00"), plan("now", "1.00")],
      subscriptions: [
        { plan: "later", starts: "2099-01-01" },
        { plan: "over", starts: "2020-01-01", ends: "2020-02-01" },
        { plan: "now" },
      ],
    });
    expect(await findPayer(gateway, await ask(gateway))).toBe("now");
    const [now] = (await readStatuses(gateway)).filter(({ planName }) => planName === "now");
    await cancelGrant(gateway.installation, now?.id ?? "", "now");
    const error = await expectRejection(await ask(gateway), 429);
    expect(error).toMatchObject({ code: "insufficient_quota" });
    expect(error.message).toContain("no active subscription has that much quota left");
  });

  test("gets a refund back into its window", async () => {
    const gateway = await start({ plans: [plan("pro", "1.00")], subscriptions: [{ plan: "pro" }] });
    const requestId = await doneId(await ask(gateway));
    await refund(gateway.installation, { requestId, amountNano: "all", actor: "test", reason: "broken" });
    expect((await readStatuses(gateway))[0]?.windows[0]?.usedNano).toBe(0n);
  });
});

describe("with several subscriptions", () => {
  const several = {
    plans: [plan("second", "1.00"), plan("first", "0.0015"), plan("other", "1.00")],
    subscriptions: [
      { plan: "second", priority: 2 },
      { plan: "first", priority: 1 },
      { plan: "other", priority: 0 },
    ],
    billing: { plans: ["first", "second"] },
  };

  test("the lowest priority number pays first while it can, then the next", async () => {
    const gateway = await start(several);
    // The first subscription can pay this many tokens once, and the rest does not even pay for a short response.
    const asked = { max_completion_tokens: 100 };
    const payers: (string | undefined)[] = [];
    for (let i = 0; i < 4; i++) payers.push(await findPayer(gateway, await ask(gateway, asked)));
    expect(payers[0]).toBe("first");
    expect(payers.at(-1)).toBe("second");
    expect(payers).toEqual(payers.toSorted());
  });

  test("only those of the group's plans pay", async () => {
    const gateway = await start({ ...several, subscriptions: [{ plan: "other" }] });
    const error = await expectRejection(await ask(gateway), 429);
    expect(error.code).toBe("insufficient_quota");
    const report = (await (await gateway.call("/v1/usage")).json()) as { billing: object };
    expect(report.billing).toEqual({ mode: "subscription", currency: "USD", subscriptions: [] });
  });

  test("one with an end date pays before an open-ended one", async () => {
    const gateway = await start({
      plans: [plan("open", "1.00"), plan("ending", "1.00")],
      subscriptions: [{ plan: "open" }, { plan: "ending", ends: "2099-01-01" }],
    });
    expect(await findPayer(gateway, await ask(gateway))).toBe("ending");
  });
});

test("concurrent requests cannot overspend a window", async () => {
  const gateway = await start({ plans: [plan("pro", "0.01")], subscriptions: [{ plan: "pro" }] });
  const statuses = await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const response = await ask(gateway, { max_completion_tokens: 60, stream: i % 2 === 0 });
      await response.text();
      return response.status;
    }),
  );
  expect(new Set(statuses)).toEqual(new Set([200, 429]));
  const [window] = (await readStatuses(gateway))[0]?.windows ?? [];
  expect(window?.heldNano).toBe(0n);
  expect(window?.usedNano).toBeLessThanOrEqual(parseUsd("0.01"));
});
