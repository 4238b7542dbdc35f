/**
 * A client that did not receive its response retries with the same idempotency key: the request is executed and charged
 * once.
 */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { topUp } from "../../src/billing/operations/operations.ts";
import { parseUsd } from "../../src/money/nano.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  doneId,
  PAYER,
  type PaidGateway,
  type PaidSetup,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(({ records }: PaidGateway) => records.expectReconciled());

const OTHER_SECRET = "other-key-0123456789-0123456789-0123456789";

function start(setup: PaidSetup = {}): Promise<PaidGateway> {
  const keys = [{ name: "other", user: PAYER, group: "paying", secret: OTHER_SECRET }];
  return stopLater(startPaidGateway({ balance: "1.00", keys, ...setup }));
}

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user" as const, content: "Hello" }];
const under = (token: string, secret = TEST_KEY): RequestInit => ({
  headers: { "idempotency-key": token, authorization: `Bearer ${secret}` },
});
const body = { model: "paid", messages };
const asked = ({ simulator }: PaidGateway) => simulator.ledger.totals().requests;

describe("a repeated request", () => {
  test("is replayed for every kind of whole response", async () => {
    const gateway = await start();
    const calls: [string, object][] = [
      ["/v1/responses", { model: "paid", input: "Hello" }],
      ["/v1/embeddings", { model: "paid", input: "Hello" }],
      ["/v1/images/generations", { model: "paid", prompt: "Hello" }],
    ];
    for (const [path, sent] of calls) {
      const texts = [
        await gateway.call(path, sent, under(path)),
        await gateway.call(path, sent, under(path)),
      ];
      const [first, second] = await Promise.all(texts.map((response) => response.text()));
      expect(second).toBe(first ?? "");
    }
    expect(asked(gateway)).toBe(3);
  });

  test("while the first is in flight is rejected with Retry-After", async () => {
    const gateway = await start({ models: { paid: "sim-fast@first=500ms" } });
    const first = gateway.call(CHAT, body, under("one"));
    await eventually(() => asked(gateway), { equals: 1 });
    const second = await gateway.call(CHAT, body, under("one"));
    expect(second.headers.get("retry-after")).toBe("2");
    const error = await expectRejection(second, 409);
    expect(error).toMatchObject({ code: "idempotency_in_progress", param: "idempotency-key" });
    await doneId(await first);
    const third = await gateway.call(CHAT, body, under("one"));
    expect(third.headers.get("idempotency-replayed")).toBe("true");
    expect(asked(gateway)).toBe(1);
  });

  test("sent 20 times at once reaches the upstream once", async () => {
    const gateway = await start({ models: { paid: "sim-fast@first=100ms" } });
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const response = await gateway.call(CHAT, body, under("one"));
        await response.text();
        return response.status;
      }),
    );
    expect(statuses.toSorted()).toEqual([200, ...Array.from({ length: 19 }, () => 409)]);
    expect(asked(gateway)).toBe(1);
  });

  test("for a stream is rejected with the original request id and without an SDK retry", async () => {
    const gateway = await start();
    const id = await doneId(await gateway.call(CHAT, { ...body, stream: true }, under("one")));
    const again = await gateway.call(CHAT, { ...body, stream: true }, under("one"));
    expect(again.headers.get("x-should-retry")).toBe("false");
    const error = await expectRejection(again, 409);
    expect(error).toMatchObject({ code: "idempotency_response_gone", param: "idempotency-key" });
    expect(error.message).toContain(id);
    expect(asked(gateway)).toBe(1);
  });

  test("with a response too long to store is rejected the same way", async () => {
    const gateway = await start({ models: { paid: "sim-fast@bytes=70000" } });
    await doneId(await gateway.call(CHAT, body, under("one")));
    expect((await expectRejection(await gateway.call(CHAT, body, under("one")), 409)).code).toBe(
      "idempotency_response_gone",
    );
  });

  test("whose first attempt failed after dispatch is not sent again", async () => {
    const gateway = await start({ models: { paid: "fault/truncated" } });
    const first = await gateway.call(CHAT, body, under("one"));
    expect(first.headers.get("x-should-retry")).toBe("false");
    expect((await expectRejection(first, 502)).message).toEndWith(
      "To send the request again, use a new key.",
    );
    const error = await expectRejection(await gateway.call(CHAT, body, under("one")), 409);
    expect(error.code).toBe("idempotency_response_gone");
    expect(asked(gateway)).toBe(1);
  });

  test("that its account rejected is sent again", async () => {
    const gateway = await start({ models: { paid: "fault/500" } });
    for (let i = 0; i < 2; i++) {
      const { message } = await expectRejection(await gateway.call(CHAT, body, under("one")), 502);
      expect(message).not.toContain("Idempotency-Key");
    }
  });

  test("with a different body is rejected", async () => {
    const gateway = await start();
    await doneId(await gateway.call(CHAT, body, under("one")));
    for (const [path, other] of [
      [CHAT, { ...body, temperature: 1 }],
      ["/v1/responses", { model: "paid", input: "Hello" }],
    ] as const) {
      const error = await expectRejection(await gateway.call(path, other, under("one")), 400);
      expect(error).toMatchObject({ code: "idempotency_key_reused", param: "idempotency-key" });
    }
    expect(asked(gateway)).toBe(1);
  });

  test("with another API key is a separate request", async () => {
    const gateway = await start();
    await doneId(await gateway.call(CHAT, body, under("one")));
    const other = await gateway.call(CHAT, body, under("one", OTHER_SECRET));
    expect(other.headers.get("idempotency-replayed")).toBeNull();
    await doneId(other);
    expect(asked(gateway)).toBe(2);
  });

  test("that was rejected before dispatch is executed", async () => {
    const gateway = await start({ balance: "0.00" });
    await expectRejection(await gateway.call(CHAT, body, under("one")), 429);
    const user = await findUserByEmail(gateway.installation.db, PAYER);
    const order = { amountNano: parseUsd("1.00"), provider: "manual", actor: "test", reason: null };
    await topUp(gateway.installation, { userId: user?.id ?? "", ...order });
    await doneId(await gateway.call(CHAT, body, under("one")));
    expect(asked(gateway)).toBe(1);
  });

  test("after an invalid request may have another body", async () => {
    const gateway = await start();
    await expectRejection(await gateway.call(CHAT, { ...body, model: "nothing" }, under("one")), 404);
    await doneId(await gateway.call(CHAT, body, under("one")));
  });
});

describe("a repeated form", () => {
  const form = (picture: string, more: Record<string, string> = {}) => {
    const made = new FormData();
    for (const [name, value] of Object.entries({ model: "paid", prompt: "More red", ...more })) {
      made.set(name, value);
    }
    made.set("image", new Blob([picture], { type: "image/png" }), "ledger.png");
    return made;
  };
  const edit = (gateway: PaidGateway, sent: FormData) => gateway.call("/v1/images/edits", sent, under("one"));

  test("with another boundary is replayed", async () => {
    const gateway = await start();
    await doneId(await edit(gateway, form("picture")));
    const again = await edit(gateway, form("picture"));
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(asked(gateway)).toBe(1);
  });

  test.each([
    ["picture", form("another")],
    ["size", form("picture", { size: "1536x1024" })],
    ["field that the gateway does not read", form("picture", { background: "opaque" })],
  ])("with another %s is rejected", async (_, other) => {
    const gateway = await start();
    await doneId(await edit(gateway, form("picture")));
    expect((await expectRejection(await edit(gateway, other), 400)).code).toBe("idempotency_key_reused");
  });
});

test.each(["two words", "", "x".repeat(256), "é"])("the idempotency key %p is rejected", async (token) => {
  const gateway = await start();
  const response = await gateway.call(CHAT, body, under(token));
  const error = await expectRejection(response, 400);
  expect(error).toMatchObject({ code: "invalid_value", param: "idempotency-key" });
  expect(asked(gateway)).toBe(0);
});

test("the stored response is not readable in the database", async () => {
  const gateway = await start();
  const response = await gateway.call(CHAT, body, under("one"));
  const content = ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0]
    .message.content;
  const rows = await gateway.installation.db.sql`SELECT body FROM idempotency`;
  expect(rows).toHaveLength(1);
  expect(String(rows[0]?.body)).not.toContain(content.slice(0, 20));
});
