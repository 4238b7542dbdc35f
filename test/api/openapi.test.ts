/** The description holds for the running gateway: what it shows is served, and what it requires is required. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { Content } from "../../src/public-api/operation.ts";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    models: { "fast-chat": "sim-fast", "embed-small": "sim-embed", painter: "sim-image" },
  });
});
afterAll(() => gateway.stop());

interface Called {
  path: string;
  body: Content;
  answer: Content;
}

const CALLS = Object.entries(OPERATIONS).flatMap(([name, { body, answer }]): [string, Called][] => {
  const json = body?.["application/json"];
  return json === undefined ? [] : [[name, { path: name.replace("POST ", ""), body: json, answer }]];
});

describe.each(CALLS)("%s", (_, { path, body, answer }) => {
  test("serves its examples as it says", async () => {
    for (const { value } of body.examples) {
      const response = await gateway.call(path, value);
      expect(response.status).toBe(200);
      if (response.headers.get("content-type") === "application/json")
        answer.schema.parse(await response.json());
      else expect(await response.text()).toEndWith("data: [DONE]\n\n");
    }
  });

  test("requires what it says it requires", async () => {
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
  "%s is not sent again to a client that has it",
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

test("the document is served to anybody", async () => {
  const response = await fetch(`${gateway.url}/openapi.json`);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({
    openapi: "3.1.0",
    servers: [{ url: expect.stringContaining("http") }],
    paths: { "/v1/responses": { post: { operationId: "createResponse" } } },
  });
});

test("models, usage, requests and health are what the document says", async () => {
  const told = async (path: string) => (await gateway.call(path)).json();
  OPERATIONS["GET /v1/models"].answer.schema.parse(await told("/v1/models"));
  OPERATIONS["GET /v1/models/{model}"].answer.schema.parse(await told("/v1/models/fast-chat"));
  const asked = await gateway.call("/v1/responses", { model: "fast-chat", input: "Hello" });
  const id = asked.headers.get("x-request-id");
  OPERATIONS["GET /v1/usage"].answer.schema.parse(await told("/v1/usage"));
  OPERATIONS["GET /v1/requests/{request_id}"].answer.schema.parse(await told(`/v1/requests/${id}`));
  OPERATIONS["GET /healthz"].answer.schema.parse(await told("/healthz"));
  OPERATIONS["GET /readyz"].answer.schema.parse(await told("/readyz"));
});
