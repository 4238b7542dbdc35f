/** Money is held before a request goes upstream: its possible cost, or the available amount. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { topUp } from "../../src/billing/operations/operations.ts";
import { parseUsd } from "../../src/money/nano.ts";
import { bumpPolicyRevision } from "../../src/store/engine/revisions.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  bill,
  doneId,
  PAYER,
  type PaidGateway,
  type PaidSetup,
  PRICE,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import type { GatewayOptions } from "../support/running-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach();

function start(setup: PaidSetup, limits: GatewayOptions["limits"] = {}): Promise<PaidGateway> {
  return stopLater(startPaidGateway(setup, { limits }));
}

const messages = [{ role: "user" as const, content: "Hello" }];
const FAMILIES = [
  ["/v1/chat/completions", { messages }, "max_completion_tokens"],
  ["/v1/responses", { input: "Hello" }, "max_output_tokens"],
] as const;

interface Report {
  billing: { mode: string; balance: string; held: string; available: string };
  remaining: number;
}
const report = async (gateway: PaidGateway) => (await (await gateway.call("/v1/usage")).json()) as Report;

/** The last body that the upstream received. */
function received({ simulator }: PaidGateway): Record<string, unknown> {
  const body = simulator.ledger.findBody(simulator.ledger.last()?.id ?? "");
  return JSON.parse(new TextDecoder().decode(body ?? new Uint8Array()));
}

describe("a hold", () => {
  test("covers the input and the output limit, is visible during a stream, and ends with it", async () => {
    const gateway = await start({ balance: "1.00", models: { paid: "sim-fast@events=1000,interval=20ms" } });
    const body = { model: "paid", messages, stream: true, max_completion_tokens: 40 };
    const response = await gateway.call("/v1/chat/completions", body);
    const { billing, remaining } = await report(gateway);
    const held = parseUsd(billing.held);
    expect(billing).toMatchObject({ mode: "balance", balance: "1.00" });
    expect(parseUsd(billing.available)).toBe(parseUsd("1.00") - held);
    expect(remaining).toBe(Number(billing.available));
    // The input is at most one token per byte.
    expect(held).toBeGreaterThan(bill([[40, PRICE.output]]));
    expect(held).toBeLessThan(
      bill([
        [40, PRICE.output],
        [200, PRICE.input],
      ]),
    );
    const id = await doneId(response);
    const after = await report(gateway);
    const { chargedNano } = await gateway.records.row(id);
    expect(after.billing.held).toBe("0.00");
    expect(parseUsd(after.billing.balance)).toBe(parseUsd("1.00") - chargedNano);
    await gateway.records.expectReconciled();
  });

  test("of a request that no account could serve is released in full", async () => {
    const gateway = await start({ balance: "1.00", models: { paid: "fault/500" } });
    for (const stream of [false, true]) {
      const response = await gateway.call("/v1/chat/completions", { model: "paid", messages, stream });
      await response.text();
      expect(response.status).toBeGreaterThanOrEqual(500);
    }
    expect(await gateway.records.wallet()).toEqual({ balanceNano: parseUsd("1.00"), heldNano: 0n });
    expect(await gateway.records.holds()).toBe(0);
  });
});

describe("a balance that does not cover a request", () => {
  test.each(FAMILIES)("limits the response to what it can pay for, on %s", async (path, prompt, field) => {
    const gateway = await start({ balance: "0.001" });
    const id = await doneId(await gateway.call(path, { model: "paid", ...prompt }));
    const bound = received(gateway)[field];
    // $0.001 buys 99 output tokens and a few of input.
    expect(bound).toBeGreaterThan(80);
    expect(bound).toBeLessThan(100);
    const row = await gateway.records.row(id);
    expect(row).toMatchObject({ outcome: expect.any(String), flags: ["capped"] });
    expect(row.outputTokens).toBeLessThanOrEqual(Number(bound));
    expect(row.chargedNano).toBe(row.costNano);
    expect((await gateway.records.wallet()).balanceNano).toBe(parseUsd("0.001") - row.chargedNano);
  });

  test("lowers the limit of the client in the same field, and keeps a lower one", async () => {
    const gateway = await start({ balance: "0.001" });
    const ask = async (more: object) =>
      doneId(await gateway.call("/v1/chat/completions", { model: "paid", messages, ...more }));
    const capped = await ask({ max_tokens: 5_000 });
    expect(received(gateway)).toMatchObject({ max_tokens: expect.any(Number) });
    expect(received(gateway).max_tokens).toBeLessThan(100);
    expect(received(gateway)).not.toHaveProperty("max_completion_tokens");
    expect((await gateway.records.row(capped)).flags).toEqual(["capped"]);
    const bounded = await ask({ max_completion_tokens: 17 });
    expect(received(gateway).max_completion_tokens).toBe(17);
    expect((await gateway.records.row(bounded)).flags).toEqual([]);
  });

  test("replaces a limit of -1, which some upstreams treat as unlimited", async () => {
    const gateway = await start({ balance: "0.001" });
    await doneId(await gateway.call("/v1/chat/completions", { model: "paid", messages, max_tokens: -1 }));
    expect(received(gateway).max_tokens).toBeGreaterThan(50);
    expect(received(gateway).max_tokens).toBeLessThan(100);
  });

  test("is divided among the choices", async () => {
    const gateway = await start({ balance: "0.001" });
    await doneId(await gateway.call("/v1/chat/completions", { model: "paid", messages, n: 3 }));
    expect(received(gateway).max_completion_tokens).toBeLessThan(34);
    expect((await gateway.records.wallet()).balanceNano).toBeGreaterThanOrEqual(0n);
  });

  test("stops a stream whose upstream ignores the limit, and charges the delivered content", async () => {
    const talker = startTalker();
    const account = { name: "talker", kind: "openai", base_url: talker.url, private_network: true };
    const gateway = await start(
      { balance: "0.001", accounts: [{ ...account, models: { paid: "talker" } }] },
      { keepAliveTickMs: 50 },
    );
    const response = await gateway.call("/v1/chat/completions", { model: "paid", messages, stream: true });
    const text = await response.text();
    const { error } = JSON.parse(text.trimEnd().split("\n").at(-1)?.slice("data: ".length) ?? "");
    expect(error).toMatchObject({ code: "insufficient_quota" });
    const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
    expect(row).toMatchObject({
      outcome: "failed",
      errorCode: "insufficient_quota",
      usageSource: "estimated",
      chargedNano: row.costNano,
      flags: ["estimated", "overrun", "capped"],
    });
    expect(row.costNano).toBeGreaterThan(parseUsd("0.001"));
    const balanceNano = parseUsd("0.001") - row.costNano;
    expect(await gateway.records.wallet()).toEqual({ balanceNano, heldNano: 0n });
    await eventually(() => talker.open(), { equals: 0 });
    await talker.stop();
  });

  test.each(FAMILIES)(
    "not even in part rejects it without a retry, and nothing goes upstream: %s",
    async (path, prompt) => {
      const gateway = await start({ balance: "0.000100001" });
      for (const stream of [false, true]) {
        const response = await gateway.call(path, { model: "paid", ...prompt, stream });
        expect(response.headers.get("x-should-retry")).toBe("false");
        expect(response.headers.get("retry-after")).toBeNull();
        const error = await expectRejection(response, 429);
        expect(error).toMatchObject({ type: "insufficient_quota", code: "insufficient_quota" });
        expect(error.message).toMatch(
          /^This request requires at least \$0\.000\d+, but your available balance is \$0\.000100001\. Top up the balance, or send a smaller request\.$/,
        );
        expect(await gateway.records.row(error.request_id)).toMatchObject({
          outcome: "refused",
          status: 429,
          errorCode: "insufficient_quota",
          costNano: 0n,
          chargedNano: 0n,
          attempts: 0,
        });
      }
      expect(gateway.simulator.ledger.totals().requests).toBe(0);
      expect((await gateway.records.wallet()).balanceNano).toBe(parseUsd("0.000100001"));
    },
  );

  test("of zero rejects the request", async () => {
    const gateway = await start({});
    const error = await expectRejection(
      await gateway.call("/v1/chat/completions", { model: "paid", messages }),
      429,
    );
    expect(error.message).toContain("but your available balance is $0.00");
  });

  test("must cover images and compactions in full, because they cannot be limited", async () => {
    const gateway = await start({
      balance: "0.05",
      models: { paid: "sim-fast", painter: { upstream: "sim-image", price: { image: "0.04" } } },
    });
    const paint = (n: number) =>
      gateway.call("/v1/images/generations", { model: "painter", prompt: "A ledger", n });
    await expectRejection(await paint(2), 429);
    await doneId(await paint(1));
    await expectRejection(
      await gateway.call("/v1/responses/compact", { model: "paid", input: "Hello" }),
      429,
    );
    expect(gateway.simulator.ledger.totals().requests).toBe(1);
  });
});

test("many concurrent requests cannot overspend one cent, and the rest is rejected", async () => {
  const gateway = await start({ balance: "0.01" });
  const responses = await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const body = { model: "paid", messages, stream: i % 2 === 0, max_completion_tokens: 60 };
      const response = await gateway.call("/v1/chat/completions", body);
      await response.text();
      return response.status;
    }),
  );
  expect(new Set(responses)).toEqual(new Set([200, 429]));
  const { balanceNano, heldNano } = await gateway.records.wallet();
  expect(heldNano).toBe(0n);
  expect(balanceNano).toBeGreaterThanOrEqual(0n);
  await gateway.records.expectReconciled();
});

test("a top-up is available to the next request", async () => {
  const gateway = await start({});
  const ask = () => gateway.call("/v1/chat/completions", { model: "paid", messages });
  await expectRejection(await ask(), 429);
  const user = await findUserByEmail(gateway.installation.db, PAYER);
  const order = { amountNano: parseUsd("1.00"), provider: "manual", actor: "test", reason: null };
  await topUp(gateway.installation, { userId: user?.id ?? "", ...order });
  await doneId(await ask());
});

/** A chat upstream that sends a word every millisecond, ignoring all limits, until the client disconnects. */
function startTalker() {
  let open = 0;
  async function* words() {
    open++;
    try {
      for (;;) {
        const choices = [{ index: 0, delta: { content: "another word " }, finish_reason: null }];
        yield `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", choices })}\n\n`;
        await Bun.sleep(1);
      }
    } finally {
      open--;
    }
  }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response(words(), { headers: { "content-type": "text/event-stream" } }),
  });
  return { url: `http://127.0.0.1:${server.port}/v1`, open: () => open, stop: () => server.stop(true) };
}

test("a key without a user in a charging group is rejected when the file is applied, and per request", async () => {
  const gateway = await start({
    balance: "1.00",
    groups: [{ name: "free", interfaces: ["chat"], models: ["paid"], accounts: ["sim"] }],
    keys: [{ name: "unowned", group: "free", secret: "unowned-key-0123456789-0123456789-01234567" }],
  });
  const withoutUser = { headers: { authorization: "Bearer unowned-key-0123456789-0123456789-01234567" } };
  const ask = () => gateway.call("/v1/chat/completions", { model: "paid", messages }, withoutUser);
  await doneId(await ask());
  const charging = (name: string) => JSON.stringify({ groups: [{ name, billing: { charge: "balance" } }] });
  const rejection = await gateway.apply(charging("free")).catch((error: Error) => error.message);
  expect(rejection).toContain("a key of a charging group needs a user to charge");
  // A key that is written to the database directly is rejected per request.
  const { db } = gateway.installation;
  const [paying] = await db.sql`SELECT billing FROM key_group WHERE name = ${"paying"}`;
  await db.sql`UPDATE key_group SET billing = ${String(paying?.billing)} WHERE name = ${"free"}`;
  await bumpPolicyRevision(db);
  const error = await eventually(async () => {
    const response = await ask();
    if (response.status === 429) return expectRejection(response, 429);
    await response.text();
    return null;
  });
  expect(error).toMatchObject({ code: "insufficient_quota", message: expect.stringContaining("no user") });
});

test("a model without a price is rejected in a charging group, with its position", async () => {
  const gateway = await start({ balance: "1.00" });
  const unpriced = {
    models: [{ id: "mystery", interfaces: ["chat"] }],
    groups: [
      {
        name: "paying",
        models: ["paid", "mystery"],
        accounts: ["sim"],
        billing: { charge: "balance" },
      },
    ],
  };
  const rejection = await gateway.apply(JSON.stringify(unpriced)).catch((error: Error) => error.message);
  expect(rejection).toContain("is a model without a price, and the group charges (billing.charge: balance)");
  expect(rejection).toContain("models[1]");
});
