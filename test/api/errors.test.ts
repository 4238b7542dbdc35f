/** The error contract of the API: unknown paths, wrong methods and content types, and arbitrary requests. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isGeminiPath } from "../../src/server/routes.ts";
import { expectEnvelope, expectRejection } from "../support/error-envelope.ts";
import { rawRequest, readHeader } from "../support/raw-http.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway();
});

afterAll(() => gateway.stop());

const AUTHORIZATION = `Authorization: Bearer ${TEST_KEY}`;
const CHAT = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
const ask = (method: string, path: string) => gateway.call(path, undefined, { method });

describe("a path", () => {
  test.each([
    "/v1",
    "/v2/models",
    "/v1/completions",
    "/v1/chat",
    "/admin",
    "/v1/responses/a/b",
    "/v1/%6dodels",
  ])("that is unknown returns 404 with the location of the API: %s", async (path) => {
    const error = await expectRejection(await gateway.call(path), 404);
    expect(error).toMatchObject({ code: "unknown_url", type: "invalid_request_error", param: null });
    expect(error.message).toContain("/v1");
  });

  test.each([
    ["/v1/v1/chat/completions", "/v1/chat/completions"],
    ["/v1/v1/models", "/v1/models"],
    ["/v1/v1/v1/embeddings", "/v1/embeddings"],
    ["/v1/v1/models/vendor/model", "/v1/models/vendor/model"],
    ["/v1/v1/responses/resp_1/cancel", "/v1/responses/resp_1/cancel"],
    ["/chat/completions", "/v1/chat/completions"],
    ["/responses", "/v1/responses"],
    ["//v1/models", "/v1/models"],
    ["/v1//models", "/v1/models"],
    ["/v1/models/", "/v1/models"],
  ])("with a typo returns 404 with the corrected path: %s", async (path, mended) => {
    const response = await rawRequest(
      gateway.url,
      `GET ${path} HTTP/1.1\r\nHost: x\r\n${AUTHORIZATION}\r\n\r\n`,
    );
    expect(response.status).toBe(404);
    const error = expectEnvelope(response.status, readHeader(response, "x-request-id"), response.body);
    expect(error.code).toBe("unknown_url");
    expect(error.message).toContain(`Did you mean ${mended}?`);
  });

  test("with /v1 twice returns the base URL that the client used", async () => {
    const error = await expectRejection(await gateway.call("/v1/v1/models"), 404);
    expect(error.message).toContain(`Use ${gateway.url}/v1 as the base URL of SDKs`);
  });

  test("of an unsupported OpenAI API returns an error that names that API", async () => {
    const error = await expectRejection(await gateway.call("/v1/audio/speech", {}), 404);
    expect(error.message).toContain("This gateway does not support the Audio API");
    expect(error.message).toContain("It supports POST /v1/responses,");
  });

  test("may have any query", async () => {
    expect((await gateway.call("/v1/models?client_version=0.166.0&x=%00")).status).toBe(200);
    expect((await gateway.call("/v1/chat/completions?model=other&api-version=1", CHAT)).status).toBe(200);
  });
});

describe("a method", () => {
  test.each([
    ["POST", "/v1/models", "GET"],
    ["DELETE", "/v1/models/fast-chat", "GET"],
    ["GET", "/v1/chat/completions", "POST"],
    ["PUT", "/v1/embeddings", "POST"],
    ["PATCH", "/v1/images/generations", "POST"],
    ["DELETE", "/v1/images/edits", "POST"],
    ["DELETE", "/v1/responses", "POST, GET"],
    ["POST", "/v1/responses/resp_1", "GET, DELETE"],
    ["GET", "/v1/responses/resp_1/cancel", "POST"],
    ["POST", "/v1/responses/resp_1/input_items", "GET"],
    ["GET", "/v1/responses/compact", "POST"],
    ["POST", "/v1/usage", "GET"],
    ["POST", "/healthz", "GET, HEAD"],
    ["DELETE", "/readyz", "GET, HEAD"],
    ["OPTIONS", "/v1/models", "GET"],
  ])("that a path does not support returns 405 with Allow: %s %s", async (method, path, allow) => {
    const response = await ask(method, path);
    expect(response.headers.get("allow")).toBe(allow);
    expect(await expectRejection(response, 405)).toMatchObject({ code: "method_not_allowed" });
  });
});

describe("GET /v1/responses", () => {
  test("without an upgrade returns 426", async () => {
    const response = await gateway.call("/v1/responses");
    expect(response.headers.get("upgrade")).toBe("websocket");
    expect(await expectRejection(response, 426)).toMatchObject({ code: "upgrade_required" });
  });
});

describe("a content type", () => {
  test.each([
    "",
    "text/plain",
    "application/jsonx",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
  ])("that is not JSON returns 415: %p", async (type) => {
    const response = await gateway.call("/v1/chat/completions", JSON.stringify(CHAT), {
      headers: { "content-type": type },
    });
    expect(await expectRejection(response, 415)).toMatchObject({
      code: "unsupported_media_type",
      message: expect.stringContaining("application/json"),
    });
  });

  test.each(["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"])(
    "that is a variant of JSON is accepted: %p",
    async (type) => {
      const response = await gateway.call("/v1/chat/completions", JSON.stringify(CHAT), {
        headers: { "content-type": type },
      });
      expect(response.status).toBe(200);
    },
  );

  test("of an image edit may be a form, and the error names it", async () => {
    const response = await gateway.call("/v1/images/edits", "x", {
      headers: { "content-type": "text/plain" },
    });
    expect((await expectRejection(response, 415)).message).toContain("multipart/form-data");
  });
});

describe("a Host header", () => {
  test.each([
    ["sent twice", "Host: a\r\nHost: b"],
    ["sent twice with the same value", "Host: a\r\nHost: a"],
    ["that is empty", "Host:"],
    ["that is not a host", "Host: a/v1/usage?"],
    ["with user information", "Host: someone@a"],
  ])("%s is rejected", async (_, host) => {
    const response = await rawRequest(
      gateway.url,
      `GET /v1/models HTTP/1.1\r\n${host}\r\n${AUTHORIZATION}\r\n\r\n`,
    );
    expect(response.status).toBe(400);
    expect(expectEnvelope(400, readHeader(response, "x-request-id"), response.body).message).toContain(
      "Host",
    );
  });

  test("is the only place for a host: an absolute request target is rejected", async () => {
    const line = "GET http://elsewhere/v1/models HTTP/1.1";
    const response = await rawRequest(gateway.url, `${line}\r\nHost: x\r\n${AUTHORIZATION}\r\n\r\n`);
    expect(response.status).toBe(400);
    expect(expectEnvelope(400, readHeader(response, "x-request-id"), response.body).message).toContain(
      "must be a path",
    );
  });
});

describe("every response, successful or not,", () => {
  test.each([
    ["GET", "/healthz", 200],
    ["HEAD", "/healthz", 200],
    ["GET", "/readyz", 200],
    ["GET", "/v1/models", 200],
    ["GET", "/v1/models/fast-chat", 200],
    ["GET", "/v1/models/nothing", 404],
    ["GET", "/v1/usage", 200],
    ["GET", "/v1/responses", 426],
    ["GET", "/v1/responses/resp_x", 404],
    ["DELETE", "/v1/responses/resp_x", 404],
    ["GET", "/nowhere", 404],
    ["HEAD", "/nowhere", 404],
    ["PUT", "/v1/models", 405],
  ])("has a unique request id: %s %s", async (method, path, status) => {
    const ids = new Set<string | null>();
    for (let i = 0; i < 2; i++) {
      const response = await ask(method, path);
      expect(response.status).toBe(status);
      await response.arrayBuffer();
      ids.add(response.headers.get("x-request-id"));
    }
    expect(ids.size).toBe(2);
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-f-]{36}$/);
  });

  test.each([
    ["/v1/chat/completions", CHAT],
    ["/v1/chat/completions", { ...CHAT, stream: true }],
    ["/v1/responses", { model: "fast-chat", input: "Hello" }],
    ["/v1/responses", { model: "fast-chat", input: "Hello", stream: true }],
    ["/v1/responses/input_tokens", { model: "fast-chat", input: "Hello" }],
    ["/v1/responses/compact", { model: "fast-chat", input: "Hello" }],
    ["/v1/embeddings", { model: "fast-chat", input: "Hello" }],
    ["/v1/images/generations", { model: "fast-chat", prompt: "Hello" }],
    ["/v1/images/generations", { model: "fast-chat", prompt: "Hello", stream: true }],
    ["/v1/images/edits", { model: "fast-chat", prompt: "Hello", images: [{ image_url: "data:," }] }],
  ])("has a unique request id: POST %s %j", async (path, body) => {
    const response = await gateway.call(path, body);
    expect(response.status).toBe(200);
    expect(response.headers.get("x-request-id")).toMatch(/^req_[0-9a-f-]{36}$/);
    await response.arrayBuffer();
  });

  test("has the request id of the gateway, not of the client or the upstream", async () => {
    const response = await gateway.call("/v1/chat/completions", CHAT, {
      headers: { "x-request-id": "req_mine", "x-client-request-id": "mine" },
    });
    expect(response.headers.get("x-request-id")).not.toBe("req_mine");
    expect(response.headers.get("x-request-id")).not.toBe(gateway.simulator.ledger.last()?.id ?? "");
  });

  test("of a stream is uncompressed, unbuffered and not cacheable", async () => {
    const response = await gateway.call("/v1/chat/completions", { ...CHAT, stream: true });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
    expect(response.headers.has("content-length")).toBe(false);
    expect(response.headers.has("content-encoding")).toBe(false);
    await response.text();
  });
});

describe("an arbitrary request", () => {
  const PATHS = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/responses/input_tokens",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/models",
    "/v1/usage",
    "/healthz",
  ];
  const path = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...PATHS) },
    // The root leads to the console, which is not part of the API; so do paths of dots and slashes that resolve to it.
    fc.webPath().map((text) => `/nowhere${text.replaceAll(".", "-")}`),
    fc.string({ maxLength: 40 }).map((text) => `/v1/${encodeURIComponent(text)}`),
    fc.string({ maxLength: 40 }).map((text) => `/v1/responses/${encodeURIComponent(text)}/input_items`),
    fc.string({ maxLength: 40 }).map((text) => `/v1/models/${encodeURI(text.toWellFormed())}`),
  );
  const method = fc.oneof(
    { weight: 3, arbitrary: fc.constant("POST") },
    fc.constantFrom("GET", "PUT", "DELETE", "PATCH", "OPTIONS"),
  );
  const routed = fc.record(
    {
      model: fc.oneof(fc.constant("fast-chat"), fc.jsonValue()),
      messages: fc.oneof(fc.constant(CHAT.messages), fc.jsonValue()),
      input: fc.jsonValue(),
      prompt: fc.jsonValue(),
      stream: fc.oneof(fc.boolean(), fc.jsonValue()),
      stream_options: fc.jsonValue(),
      n: fc.oneof(fc.integer({ min: -1, max: 3 }), fc.jsonValue()),
      previous_response_id: fc.jsonValue(),
      store: fc.jsonValue(),
      background: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  const body = fc.oneof(
    { weight: 3, arbitrary: routed.map((value) => Buffer.from(JSON.stringify(value))) },
    fc.json().map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    fc.tuple(fc.json(), fc.nat(50)).map(([text, cut]) => Buffer.from(text.slice(0, -cut))),
  );
  const headers = fc.record(
    {
      "content-type": fc.constantFrom(
        "application/json",
        "application/json",
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        ";;;",
      ),
      "content-encoding": fc.constantFrom(
        "gzip",
        "br",
        "zstd",
        "identity",
        "deflate",
        "gzip, gzip",
        "nonsense",
      ),
      authorization: fc.constantFrom("Bearer", "Basic abc", "Bearer  ", "nonsense", `Bearer ${TEST_KEY}`),
    },
    { requiredKeys: ["content-type"] },
  );

  test("gets a well-formed response and never a 5xx", async () => {
    await fc.assert(
      fc.asyncProperty(method, path, headers, body, async (verb, target, sent, bytes) => {
        const response = await gateway.call(target, verb === "GET" ? undefined : new Uint8Array(bytes), {
          method: verb,
          headers: sent,
        });
        const text = await response.text();
        expect(response.status).toBeLessThan(500);
        if (response.status >= 400 && isGeminiPath(new URL(target, gateway.url).pathname)) {
          // Google's form: test/gemini has its tests.
          expect(JSON.parse(text)).toMatchObject({ error: { code: response.status } });
        } else if (response.status >= 400) {
          expectEnvelope(response.status, response.headers.get("x-request-id"), text);
        } else {
          expect(response.status).toBe(200);
          expect(response.headers.get("x-request-id")).toMatch(/^req_/);
        }
      }),
      { numRuns: 300 },
    );
  });
});
