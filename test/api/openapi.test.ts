/** The API description matches the running gateway: its examples are served, and its required fields are required. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { Content } from "../../src/public-api/operation.ts";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { gatewayFile, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  const models = { "fast-chat": "sim-fast", "embed-small": "sim-embed", painter: "sim-image" };
  // The simulator has Anthropic's API beside OpenAI's.
  const all = "[chat, responses, messages, embeddings, images]";
  const file = gatewayFile({ models })
    .replaceAll("[chat, responses, embeddings, images]", all)
    .replace("    kind: openai\n", `    kind: openai\n    interfaces: ${all}\n`);
  gateway = await startTestGateway({ file });
});
afterAll(() => gateway.stop());

interface Called {
  path: string;
  body: Content;
  response: Content;
}

const CALLS = Object.entries(OPERATIONS).flatMap(
  ([name, { body, response: received }]): [string, Called][] => {
    const json = body?.["application/json"];
    // Gemini's operations are tested with their own clients (test/gemini).
    if (name.includes("/v1beta/")) return [];
    return json === undefined
      ? []
      : [[name, { path: name.replace("POST ", ""), body: json, response: received }]];
  },
);

describe.each(CALLS)("%s", (_, { path, body, response: received }) => {
  test("serves its examples as described", async () => {
    for (const { value } of body.examples) {
      const response = await gateway.call(path, value);
      expect(response.status).toBe(200);
      if (response.headers.get("content-type") === "application/json")
        received.schema.parse(await response.json());
      else expect(await response.text()).toMatch(/data: (?:\[DONE\]|\{"type":"message_stop"\})\n\n$/);
    }
  });

  test("requires the fields that are described as required", async () => {
    const [example] = body.examples;
    const { required = [] } = z.toJSONSchema(body.schema, { io: "input" });
    expect(required).toContain("model");
    for (const name of required) {
      const left = Object.entries(example?.value ?? {}).filter(([field]) => field !== name);
      const response = await gateway.call(path, Object.fromEntries(left));
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: { code: "missing_required_parameter", param: name },
      });
    }
  });
});

test.each(["/openapi.json", "/api/openapi.json"])(
  "%s returns 304 to a client that has the current version",
  async (path) => {
    const first = await fetch(`${gateway.url}${path}`);
    const etag = first.headers.get("etag") ?? "";
    const text = await first.text();
    expect([first.status, etag.length > 2, first.headers.get("cache-control")]).toEqual([
      200,
      true,
      "no-cache",
    ]);
    const again = await fetch(`${gateway.url}${path}`, {
      headers: { "if-none-match": `"other", W/${etag}` },
    });
    expect([again.status, again.headers.get("etag"), await again.text()]).toEqual([304, etag, ""]);
    expect(again.headers.get("x-request-id")).toStartWith("req_");
    const other = await fetch(`${gateway.url}${path}`, { headers: { "if-none-match": '"other"' } });
    expect([other.status, await other.text()]).toEqual([200, text]);
  },
);

test("the OpenAPI document is public", async () => {
  const response = await fetch(`${gateway.url}/openapi.json`);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({
    openapi: "3.1.0",
    servers: [{ url: expect.stringContaining("http") }],
    paths: { "/v1/responses": { post: { operationId: "createResponse" } } },
  });
});

test("models, usage, requests and health match the document", async () => {
  const fetchJson = async (path: string) => (await gateway.call(path)).json();
  OPERATIONS["GET /v1/models"].response.schema.parse(await fetchJson("/v1/models"));
  OPERATIONS["GET /v1/models/{model}"].response.schema.parse(await fetchJson("/v1/models/fast-chat"));
  const asked = await gateway.call("/v1/responses", { model: "fast-chat", input: "Hello" });
  const id = asked.headers.get("x-request-id");
  OPERATIONS["GET /v1/usage"].response.schema.parse(await fetchJson("/v1/usage"));
  OPERATIONS["GET /v1/requests/{request_id}"].response.schema.parse(await fetchJson(`/v1/requests/${id}`));
  OPERATIONS["GET /healthz"].response.schema.parse(await fetchJson("/healthz"));
  OPERATIONS["GET /readyz"].response.schema.parse(await fetchJson("/readyz"));
});
