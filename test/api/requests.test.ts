/** `GET /v1/requests/{id}`: the outcome of a request, for the key that sent it, without information about accounts. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import {
  accountName,
  keySecret,
  type PooledGateway,
  type RequestSetup,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

let gateway: PooledGateway;

beforeAll(async () => {
  gateway = await startPooledGateway({
    accounts: [
      { priority: 1, credential: "credential-canary", models: { pooled: "sim-fast", hurt: "fault/500" } },
      { priority: 2, credential: "credential-canary", models: { pooled: "sim-fast", hurt: "sim-other" } },
    ],
    keys: { a: {}, b: {}, poor: { limits: { rpm: 1 } } },
  });
});

afterAll(() => gateway.stop());

async function made(ask: RequestSetup): Promise<string> {
  const response = await gateway.send(ask);
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

function fetchReport(id: string, key: string): Promise<Response> {
  return gateway.call(`/v1/requests/${id}`, undefined, {
    headers: { authorization: `Bearer ${keySecret(key)}` },
  });
}

async function readReport(id: string, key: string): Promise<Record<string, unknown>> {
  const response = await fetchReport(id, key);
  expect(response.status).toBe(200);
  return asRecord(await response.json());
}

describe("the report of a request", () => {
  test.each([false, true])("shows its outcome and its usage (stream: %p)", async (stream) => {
    const id = await made({ key: "a", stream });
    const report = await readReport(id, "a");
    const entry = gateway.upstreams[0]?.ledger.last();
    expect(report).toEqual({
      object: "gateway.request",
      id,
      request_count: 1,
      created_at: expect.any(Number),
      completed_at: expect.any(Number),
      endpoint: "chat.completions",
      model: "pooled",
      stream,
      status: 200,
      outcome: "completed",
      error_code: null,
      usage: {
        input_tokens: entry?.inputTokens ?? -1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        web_searches: 0,
        image_input_tokens: 0,
        audio_input_tokens: 0,
        output_tokens: expect.any(Number),
        reasoning_tokens: 0,
        audio_output_tokens: 0,
        images: 0,
        source: "upstream",
      },
      money: { currency: "USD", cost: "0.00", charged: "0.00", payer: null, flags: [], calculation: null },
      timing: { waited_ms: 0, first_byte_ms: expect.any(Number), duration_ms: expect.any(Number) },
      attempts: [
        {
          number: 1,
          started_ms: expect.any(Number),
          first_byte_ms: expect.any(Number),
          status: 200,
          failure: null,
          translated_to: null,
          dropped: [],
          state_dropped: false,
        },
      ],
    });
  });

  test("shows every attempt with its failure, but not its account", async () => {
    const id = await made({ key: "a", model: "hurt" });
    const report = await readReport(id, "a");
    expect(report).toMatchObject({
      model: "hurt",
      outcome: "completed",
      attempts: [
        { number: 1, status: 500, failure: "server" },
        { number: 2, status: 200, failure: null },
      ],
    });
    const rows = await gateway.installation.db.sql`SELECT id FROM account`;
    const text = JSON.stringify(report);
    const secrets = [
      ...rows.map((row) => String(row.id)),
      accountName(0),
      accountName(1),
      "sim-other",
      "fault/500",
      "credential-canary",
      ...gateway.upstreams.map(({ port }) => `:${port}`),
    ];
    expect(rows.length).toBe(2);
    for (const secret of secrets) expect(text).not.toContain(secret);
  });

  test("of a rejected request shows the reason and no attempt", async () => {
    await made({ key: "poor" });
    const id = await made({ key: "poor" });
    expect(await readReport(id, "poor")).toMatchObject({
      status: 429,
      outcome: "refused",
      error_code: "rate_limit_exceeded",
      attempts: [],
    });
  });

  test("is also found by the response id, with the same key only", async () => {
    const response = await gateway.call(
      "/v1/responses",
      { model: "pooled", input: "Hi" },
      { headers: { authorization: `Bearer ${keySecret("a")}` } },
    );
    const responseId = String(asRecord(await response.json()).id);
    expect(await readReport(responseId, "a")).toMatchObject({
      id: response.headers.get("x-request-id"),
      endpoint: "responses",
    });
    expect((await expectRejection(await fetchReport(responseId, "b"), 404)).code).toBe("request_not_found");
  });

  test("is available only to the key that sent the request", async () => {
    const id = await made({ key: "a" });
    const others = await expectRejection(await fetchReport(id, "b"), 404);
    const unknown = await expectRejection(
      await fetchReport("req_00000000-0000-0000-0000-000000000000", "b"),
      404,
    );
    expect(others.code).toBe("request_not_found");
    // The response does not reveal that the request exists.
    expect(others.message.replace(id, "ID")).toBe(
      unknown.message.replace("req_00000000-0000-0000-0000-000000000000", "ID"),
    );
    expect((await fetchReport(id, "nobody")).status).toBe(401);
  });
});
