/** A client that did not see its answer asks again under the same key: no account works twice, nobody pays twice. */

import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI from "openai";
import { topUp } from "../../src/billing/operations/operations.ts";
import { parseUsd } from "../../src/money/nano.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { refusalOf } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  doneId,
  PAYER,
  type PaidGateway,
  type PaidSetup,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

const running: PaidGateway[] = [];

afterEach(async () => {
  for (const gateway of running.splice(0)) {
    await gateway.books.expectAgreement();
    await gateway.stop();
  }
});

const OTHER_SECRET = "other-key-0123456789-0123456789-0123456789";

async function start(setup: PaidSetup = {}, databaseUrl?: string): Promise<PaidGateway> {
  const keys = [{ name: "other", user: PAYER, group: "paying", secret: OTHER_SECRET }];
  const gateway = await startPaidGateway(
    { balance: "1.00", keys, ...setup },
    databaseUrl === undefined ? {} : { databaseUrl },
  );
  running.push(gateway);
  return gateway;
}

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user" as const, content: "Hello" }];
const under = (token: string, secret = TEST_KEY): RequestInit => ({
  headers: { "idempotency-key": token, authorization: `Bearer ${secret}` },
});
const body = { model: "paid", messages };
const asked = ({ simulator }: PaidGateway) => simulator.ledger.totals().requests;

describe("a repeat", () => {
  test.each(["sqlite", "postgres"])(
    "of a whole answer gets it again, and pays nothing (%s)",
    async (engine) => {
      const postgres = engine === "postgres" ? await startPostgres() : null;
      const gateway = await start({}, postgres?.url);
      const first = await gateway.call(CHAT, body, under("one"));
      const text = await first.text();
      expect(first.headers.get("idempotency-replayed")).toBeNull();
      const paid = await gateway.books.wallet();
      const again = await gateway.call(CHAT, body, under("one"));
      expect(again.headers.get("idempotency-replayed")).toBe("true");
      expect(again.headers.get("x-request-id")).toBe(first.headers.get("x-request-id"));
      expect([again.status, again.headers.get("content-type"), await again.text()]).toEqual([
        200,
        "application/json",
        text,
      ]);
      expect(asked(gateway)).toBe(1);
      expect(await gateway.usageRows()).toHaveLength(1);
      expect(await gateway.books.wallet()).toEqual(paid);
      await gateway.stop();
      running.length = 0;
      await postgres?.stop();
    },
  );

  test("of every kind of whole answer gets it again", async () => {
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

  test("while the first is under way is told so, and when to look again", async () => {
    const gateway = await start({ models: { paid: "sim-fast@first=500ms" } });
    const first = gateway.call(CHAT, body, under("one"));
    await eventually(() => asked(gateway) === 1);
    const second = await gateway.call(CHAT, body, under("one"));
    expect(second.headers.get("retry-after")).toBe("2");
    const error = await refusalOf(second, 409);
    expect(error).toMatchObject({ code: "idempotency_in_progress", param: "idempotency-key" });
    await doneId(await first);
    const third = await gateway.call(CHAT, body, under("one"));
    expect(third.headers.get("idempotency-replayed")).toBe("true");
    expect(asked(gateway)).toBe(1);
  });

  test("of many at once goes upstream once", async () => {
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

  test("of a stream is told which request it was, and for the official client not to try again", async () => {
    const gateway = await start();
    const id = await doneId(await gateway.call(CHAT, { ...body, stream: true }, under("one")));
    const again = await gateway.call(CHAT, { ...body, stream: true }, under("one"));
    expect(again.headers.get("x-should-retry")).toBe("false");
    const error = await refusalOf(again, 409);
    expect(error).toMatchObject({ code: "idempotency_answer_gone", param: "idempotency-key" });
    expect(error.message).toContain(id);
    expect(asked(gateway)).toBe(1);
  });

  test("of an answer too long to be kept is told the same", async () => {
    const gateway = await start({ models: { paid: "sim-fast@bytes=70000" } });
    await doneId(await gateway.call(CHAT, body, under("one")));
    expect((await refusalOf(await gateway.call(CHAT, body, under("one")), 409)).code).toBe(
      "idempotency_answer_gone",
    );
  });

  test("of a request that its account may have worked on in vain is not sent again", async () => {
    const gateway = await start({ models: { paid: "fault/truncated" } });
    const first = await gateway.call(CHAT, body, under("one"));
    expect(first.headers.get("x-should-retry")).toBe("false");
    expect((await refusalOf(first, 502)).message).toEndWith("to ask again, use a new key.");
    const error = await refusalOf(await gateway.call(CHAT, body, under("one")), 409);
    expect(error.code).toBe("idempotency_answer_gone");
    expect(asked(gateway)).toBe(1);
  });

  test("of a request that its account refused is tried again", async () => {
    const gateway = await start({ models: { paid: "fault/500" } });
    for (let i = 0; i < 2; i++) {
      const { message } = await refusalOf(await gateway.call(CHAT, body, under("one")), 502);
      expect(message).not.toContain("Idempotency-Key");
    }
  });

  test("that asks for something else is refused", async () => {
    const gateway = await start();
    await doneId(await gateway.call(CHAT, body, under("one")));
    for (const [path, other] of [
      [CHAT, { ...body, temperature: 1 }],
      ["/v1/responses", { model: "paid", input: "Hello" }],
    ] as const) {
      const error = await refusalOf(await gateway.call(path, other, under("one")), 400);
      expect(error).toMatchObject({ code: "idempotency_key_reused", param: "idempotency-key" });
    }
    expect(asked(gateway)).toBe(1);
  });

  test("under another API key is a request of its own", async () => {
    const gateway = await start();
    await doneId(await gateway.call(CHAT, body, under("one")));
    const other = await gateway.call(CHAT, body, under("one", OTHER_SECRET));
    expect(other.headers.get("idempotency-replayed")).toBeNull();
    await doneId(other);
    expect(asked(gateway)).toBe(2);
  });

  test("of a request that was refused before any account worked is a new try", async () => {
    const gateway = await start({ balance: "0.00" });
    await refusalOf(await gateway.call(CHAT, body, under("one")), 429);
    const user = await findUserByEmail(gateway.installation.db, PAYER);
    const order = { amountNano: parseUsd("1.00"), provider: "manual", actor: "test", reason: null };
    await topUp(gateway.installation, { userId: user?.id ?? "", ...order });
    await doneId(await gateway.call(CHAT, body, under("one")));
    expect(asked(gateway)).toBe(1);
  });

  test("after a wrong one is not bound by it: another body may be right", async () => {
    const gateway = await start();
    await refusalOf(await gateway.call(CHAT, { ...body, model: "nothing" }, under("one")), 404);
    await doneId(await gateway.call(CHAT, body, under("one")));
  });
});

describe("a form", () => {
  const form = (picture: string, more: Record<string, string> = {}) => {
    const made = new FormData();
    for (const [name, value] of Object.entries({ model: "paid", prompt: "More red", ...more })) {
      made.set(name, value);
    }
    made.set("image", new Blob([picture], { type: "image/png" }), "ledger.png");
    return made;
  };
  const edit = (gateway: PaidGateway, sent: FormData) => gateway.call("/v1/images/edits", sent, under("one"));

  test("sent again is the same, though its boundary is another", async () => {
    const gateway = await start();
    await doneId(await edit(gateway, form("picture")));
    const again = await edit(gateway, form("picture"));
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(asked(gateway)).toBe(1);
  });

  test.each([
    ["picture", form("another")],
    ["size", form("picture", { size: "1536x1024" })],
    ["field that nobody here reads", form("picture", { background: "opaque" })],
  ])("with another %s is something else", async (_, other) => {
    const gateway = await start();
    await doneId(await edit(gateway, form("picture")));
    expect((await refusalOf(await edit(gateway, other), 400)).code).toBe("idempotency_key_reused");
  });
});

test.each(["two words", "", "x".repeat(256), "é"])("the key %p is refused", async (token) => {
  const gateway = await start();
  const response = await gateway.call(CHAT, body, under(token));
  const error = await refusalOf(response, 400);
  expect(error).toMatchObject({ code: "invalid_value", param: "idempotency-key" });
  expect(asked(gateway)).toBe(0);
});

test("the official client gets the first answer again", async () => {
  const gateway = await start();
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY });
  const create = () =>
    client.responses.create({ model: "paid", input: "Hello" }, { headers: { "Idempotency-Key": "mine" } });
  expect(await create()).toEqual(await create());
  expect(asked(gateway)).toBe(1);
});

test("what a model said is not readable in the store", async () => {
  const gateway = await start();
  const response = await gateway.call(CHAT, body, under("one"));
  const said = ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message
    .content;
  const rows = await gateway.installation.db.sql`SELECT body FROM idempotency`;
  expect(rows).toHaveLength(1);
  expect(String(rows[0]?.body)).not.toContain(said.slice(0, 20));
});
