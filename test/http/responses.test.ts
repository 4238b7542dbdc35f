/** Responses follow HTTP exactly: the body matches its framing to the byte, and nothing comes after it. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { startGatedUpstream } from "../support/gated-upstream.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { chatBody, get, HOST, message, post } from "./messages.ts";
import { openRawClient, type RawClient, type RawResponse } from "./raw-client.ts";

const MODELS = {
  fast: "sim-fast",
  stream: "sim-fast@events=40,interval=1ms",
  burst: "sim-fast@events=400",
  large: "sim-fast@bytes=3000000",
  broken: "fault/500",
};
const IMF_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

let gateway: RunningGateway;
let client: RawClient;

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
});

afterAll(async () => {
  client?.close("fin");
  await gateway.stop();
});

async function ask(request: string, method?: "HEAD"): Promise<RawResponse> {
  client?.close("fin");
  client = await openRawClient(gateway.url);
  await client.send(request);
  const response = await client.readResponse(method);
  // If any extra byte had followed, the next response would be invalid.
  await client.send(get("/healthz"));
  expect((await client.readResponse()).body.toString()).toBe('{"status":"ok"}');
  return response;
}

describe("every response", () => {
  test.each([
    ["of health", get("/healthz"), 200],
    ["of readiness", get("/readyz"), 200],
    ["with models", get("/v1/models"), 200],
    ["with usage", get("/v1/usage"), 200],
    ["with the API description", get("/openapi.json"), 200],
    ["to a request", post(chatBody()), 200],
    ["with a large body", post(chatBody({ model: "large" })), 200],
    ["to a stream", post(chatBody({ model: "stream", stream: true })), 200],
    ["to a request that fails", post(chatBody({ model: "broken" })), 502],
    ["to an empty request", post("{}"), 400],
    ["for an unknown path", get("/nowhere"), 404],
    ["for an unsupported method", get("/healthz").replace("GET", "PUT"), 405],
    ["without an upgrade", get("/v1/responses"), 426],
    ["of the console's API", get("/api/session"), null],
    ["with a page", get("/console/"), null],
    ["with an unknown page", get("/console/assets/none.js"), null],
    ["with a redirect", get("/"), 302],
  ])("has a date, a request id and exact framing: %s", async (_, request, status) => {
    const response = await ask(request);
    if (status !== null) expect(response.status).toBe(status);
    expect(response.version).toBe("1.1");
    expect(response.header("date")).toMatch(IMF_DATE);
    expect(response.header("x-request-id")).toMatch(/^req_[0-9a-f-]{36}$/);
    expect(response.framing).toBeOneOf(["length", "chunked"]);
    expect(response.header("server")).toBeNull();
    expect(response.names.length).toBe(new Set(response.names).size);
  });

  test("has a unique request id", async () => {
    const ids = new Set<string | null>();
    for (let i = 0; i < 20; i++) ids.add((await ask(get("/v1/models"))).header("x-request-id"));
    expect(ids.size).toBe(20);
  });
});

describe("a response without a body", () => {
  test.each(["/healthz", "/readyz", "/console/", "/nowhere"])(
    "to HEAD has the headers of GET: %s",
    async (path) => {
      const asked = get(path);
      const whole = await ask(asked);
      const bare = await ask(asked.replace("GET", "HEAD"), "HEAD");
      expect(bare.status).toBe(whole.status);
      expect(bare.header("content-type")).toBe(whole.header("content-type"));
      expect(bare.header("content-length")).toBe(String(whole.body.length));
      expect(bare.header("transfer-encoding")).toBeNull();
    },
  );

  test("to HEAD can be pipelined", async () => {
    client?.close("fin");
    client = await openRawClient(gateway.url);
    const head = message("HEAD /healthz HTTP/1.1", [HOST]);
    await client.send(head + get("/healthz") + head + get("/nowhere"));
    expect((await client.readResponse("HEAD")).status).toBe(200);
    expect((await client.readResponse()).body.toString()).toBe('{"status":"ok"}');
    expect((await client.readResponse("HEAD")).status).toBe(200);
    expect((await client.readResponse()).status).toBe(404);
  });

  test("that redirects has Content-Length: 0", async () => {
    const response = await ask(message("GET /console HTTP/1.1", ["Host: localhost"]));
    expect([response.status, response.header("content-length")]).toEqual([302, "0"]);
    expect(response.header("location")).toBe("/console/");
  });
});

describe("a stream", () => {
  test.each(["stream", "burst"])("is chunked only between events: %s", async (model) => {
    const response = await ask(post(chatBody({ model, stream: true })));
    expect(response.framing).toBe("chunked");
    expect(response.header("content-type")).toStartWith("text/event-stream");
    for (const piece of response.chunks) {
      expect(piece.toString()).toMatch(/^(data|event|id|:)/);
      expect(piece.toString()).toEndWith("\n\n");
    }
    expect(response.chunks.at(-1)?.toString()).toEndWith("data: [DONE]\n\n");
  });

  test("is delivered event by event while it is produced", async () => {
    const upstream = startGatedUpstream();
    const gated = await startTestGateway({
      models: { gated: "gated" },
      environment: { SIMULATOR_URL: upstream.url },
    });
    const reader = await openRawClient(gated.url);
    try {
      await reader.send(post(chatBody({ model: "gated", stream: true })));
      await eventually(() => reader.unread().includes("first "));
      expect(reader.unread().includes("last")).toBe(false);
      upstream.release();
      expect((await reader.readResponse()).body.toString()).toEndWith("data: [DONE]\n\n");
    } finally {
      reader.close("fin");
      await gated.stop();
      await upstream.stop();
    }
  });
});
