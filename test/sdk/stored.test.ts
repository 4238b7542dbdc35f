/** Stored responses: continued, retrieved, listed, cancelled and deleted by the key that created them. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { deleteAccount, listAccounts } from "../../src/store/policy/accounts.ts";
import { modelsIn } from "../support/collect-models.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  gatewayFile,
  OTHER_KEY,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";

const MODELS = { "fast-chat": "sim-fast", thinker: "sim-reason" };

let gateway: RunningGateway;
let client: OpenAI;
let stranger: OpenAI;

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
  const baseURL = `${gateway.url}/v1`;
  client = new OpenAI({ baseURL, apiKey: TEST_KEY, maxRetries: 0 });
  stranger = new OpenAI({ baseURL, apiKey: OTHER_KEY, maxRetries: 0 });
});

afterAll(() => gateway.stop());

const ask = (input: string) => client.responses.create({ model: "fast-chat", input });
const arrived = () => gateway.simulator.ledger.totals().requests;

async function refusal(work: PromiseLike<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

const NOT_FOUND = { status: 404, code: "response_not_found", type: "invalid_request_error" };

describe("a stored response", () => {
  test("can be continued by its id", async () => {
    const first = await ask("Remember the number seven.");
    const second = await client.responses.create({
      model: "fast-chat",
      input: "Which number?",
      previous_response_id: first.id,
    });
    const third = await client.responses.create({
      model: "thinker",
      input: "Which number?",
      previous_response_id: second.id,
    });
    expect(second.previous_response_id).toBe(first.id);
    expect(third.previous_response_id).toBe(second.id);
    expect(second.usage?.input_tokens).toBeGreaterThan(first.usage?.total_tokens ?? 0);
  });

  test("can be continued after it was streamed", async () => {
    const stream = client.responses.stream({ model: "fast-chat", input: "Remember." });
    const first = await stream.finalResponse();
    const second = await client.responses.create({
      model: "fast-chat",
      input: "What?",
      previous_response_id: first.id,
    });
    expect(second.previous_response_id).toBe(first.id);
  });

  test("is retrieved whole and as a stream, with the public model name", async () => {
    const made = await ask("Say it once.");
    const fetched = await client.responses.retrieve(made.id);
    expect(fetched.output_text).toBe(made.output_text);
    expect(fetched._request_id).toMatch(/^req_/);
    const events = [];
    for await (const event of await client.responses.retrieve(made.id, { stream: true })) events.push(event);
    expect(events.at(-1)?.type).toBe("response.completed");
    const rest = [];
    for await (const event of await client.responses.retrieve(made.id, { stream: true, starting_after: 3 }))
      rest.push(event);
    expect(rest[0]?.sequence_number).toBe(4);
    expect(new Set(modelsIn([fetched, ...events, ...rest]))).toEqual(new Set(["fast-chat"]));
  });

  test("lists its input items in pages", async () => {
    const made = await client.responses.create({
      model: "fast-chat",
      input: ["one", "two", "three"].map((content) => ({ role: "user" as const, content })),
    });
    const texts: unknown[] = [];
    for await (const item of client.responses.inputItems.list(made.id, { limit: 2, order: "asc" })) {
      texts.push("content" in item && Array.isArray(item.content) ? item.content[0] : null);
    }
    expect(texts).toEqual(["one", "two", "three"].map((text) => ({ type: "input_text", text })));
  });

  test("is not found after it was deleted", async () => {
    const made = await ask("Forget this.");
    await client.responses.delete(made.id);
    expect(await refusal(client.responses.retrieve(made.id))).toMatchObject(NOT_FOUND);
    expect(
      await refusal(
        client.responses.create({ model: "fast-chat", input: "What?", previous_response_id: made.id }),
      ),
    ).toMatchObject({ status: 400, code: "previous_response_not_found", param: "previous_response_id" });
  });

  test("that cannot be cancelled returns the reason", async () => {
    const made = await ask("Done at once.");
    const error = await refusal(client.responses.cancel(made.id));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({
      message: expect.stringContaining("Cannot cancel a synchronous response."),
    });
  });

  test("does not exist for another key, and the upstream is not called", async () => {
    const made = await ask("Mine.");
    const before = arrived();
    const tries = [
      stranger.responses.retrieve(made.id),
      stranger.responses.delete(made.id),
      stranger.responses.cancel(made.id),
      stranger.responses.inputItems.list(made.id),
    ];
    for (const tried of tries) expect(await refusal(tried)).toMatchObject(NOT_FOUND);
    expect(
      await refusal(
        stranger.responses.create({ model: "fast-chat", input: "What?", previous_response_id: made.id }),
      ),
    ).toMatchObject({ status: 400, code: "previous_response_not_found" });
    expect(arrived()).toBe(before);
    expect((await client.responses.retrieve(made.id)).id).toBe(made.id);
  });

  test("returns the same error to another key as an unknown id", async () => {
    const made = await ask("Mine.");
    const words = async (id: string) => {
      const error = await refusal(stranger.responses.retrieve(id));
      return error instanceof OpenAI.APIError ? error.message.replace(id, "ID") : error;
    };
    expect(await words(made.id)).toBe(await words("resp_nothing"));
  });
});

describe("a stored response whose account is disabled or removed", () => {
  const file = (account: string) =>
    gatewayFile({ models: MODELS }).replace("private_network: true", `private_network: true\n    ${account}`);
  const spare = gatewayFile({ models: MODELS })
    .replace("groups:", "  - { name: spare, kind: simulator }\ngroups:")
    .replace("accounts: [sim]", "accounts: [spare]");

  test("is temporarily unavailable to its key until the account is enabled again", async () => {
    const made = await ask("Mine.");
    await gateway.apply(file("enabled: false"));
    const error = await eventually(async () => {
      const answer = await gateway.call(`/v1/responses/${made.id}`);
      return answer.status === 200 ? null : answer;
    });
    expect(error.headers.get("x-should-retry")).toBe("false");
    expect((await expectRejection(error, 503)).code).toBe("no_available_account");
    expect(await refusal(stranger.responses.retrieve(made.id))).toMatchObject(NOT_FOUND);
    await gateway.apply(file("enabled: true"));
    await eventually(async () => (await gateway.call(`/v1/responses/${made.id}`)).status, { equals: 200 });
  });

  test("is not found after the account was deleted", async () => {
    const made = await ask("Mine.");
    await gateway.apply(spare);
    const readStatus = async () => (await gateway.call(`/v1/responses/${made.id}`)).status;
    await eventually(() => readStatus(), { equals: 503 });
    const { db } = gateway.installation;
    const sim = (await listAccounts(db)).find(({ name }) => name === "sim");
    await deleteAccount(db, sim?.id ?? "");
    expect(await readStatus()).toBe(404);
    await gateway.apply(gatewayFile({ models: MODELS }));
    // Until then the spare account serves requests as well.
    await eventually(async () => {
      const before = arrived();
      await gateway.call("/v1/responses", { model: "fast-chat", input: "Hi" });
      return arrived() > before;
    });
  });
});

describe("a background response", () => {
  const start = () =>
    client.responses.create({ model: "fast-chat", input: "Take your time.", background: true });

  test("is queued, then retrieved", async () => {
    const queued = await start();
    expect(queued.status).toBe("queued");
    const done = await client.responses.retrieve(queued.id);
    expect(done.status).toBe("completed");
    expect(done.output_text).not.toBe("");
    expect(modelsIn([queued, done])).toEqual(["fast-chat", "fast-chat"]);
  });

  test("can be cancelled", async () => {
    const queued = await start();
    expect((await client.responses.cancel(queued.id)).status).toBe("cancelled");
    expect((await client.responses.retrieve(queued.id)).status).toBe("cancelled");
  });

  test("is counted once, when its usage is known", async () => {
    const queued = await start();
    const readRow = async () =>
      (await gateway.usageRows()).filter(({ response_id }) => response_id === queued.id);
    expect(await readRow()).toMatchObject([{ outcome: "pending", output_tokens: 0 }]);
    const done = await client.responses.retrieve(queued.id);
    await client.responses.retrieve(queued.id);
    expect(await readRow()).toMatchObject([
      {
        outcome: "completed",
        output_tokens: done.usage?.output_tokens,
        input_tokens: done.usage?.input_tokens,
      },
    ]);
  });
});

test("a response that is not stored cannot be retrieved", async () => {
  const made = await client.responses.create({ model: "fast-chat", input: "Hello", store: false });
  expect(await refusal(client.responses.retrieve(made.id))).toMatchObject(NOT_FOUND);
});

test("a conversation is compacted", async () => {
  const compacted = await client.responses.compact({
    model: "fast-chat",
    input: [
      { role: "user", content: "Hello" },
      { role: "assistant", content: "Hello yourself" },
    ],
  });
  expect(compacted.object).toBe("response.compaction");
  expect(compacted.output.at(-1)).toMatchObject({
    type: "compaction",
    encrypted_content: expect.any(String),
  });
  const next = await gateway.call("/v1/responses", { model: "fast-chat", input: compacted.output });
  expect(await next.json()).toMatchObject({ status: "completed" });
});

test("compaction without a model is rejected", async () => {
  const response = await gateway.call("/v1/responses/compact", { input: "Hello" });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { param: "model" } });
});

test("input tokens are counted without generating", async () => {
  const counted = await client.responses.inputTokens.count({ model: "fast-chat", input: "Hello there" });
  const answer = await client.responses.create({ model: "fast-chat", input: "Hello there" });
  expect(counted).toMatchObject({
    object: "response.input_tokens",
    input_tokens: answer.usage?.input_tokens ?? -1,
  });
});
