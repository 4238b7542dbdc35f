/** Bounds of calls on responses that an upstream stores: beside the limits of the key, and apart from each other. */

import { afterEach, beforeEach, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  type GatewayOptions,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";

const RESPONSE = { id: "resp_1", object: "response", status: "in_progress", model: "m", output: [] };
const event = (type: string, rest: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const BEGINNING =
  event("response.created", { response: RESPONSE }) +
  event("response.output_text.delta", { item_id: "i", output_index: 0, content_index: 0, delta: "Hi" });
const STORED = "/v1/responses/resp_1";

let upstream: Bun.Server<undefined>;
let gateway: RunningGateway;
/** Resolves what the upstream leaves open. */
let finish: () => void;
let finished: Promise<void>;
/** Reads wait until then. */
let readsHang = false;

beforeEach(() => {
  readsHang = false;
  ({ promise: finished, resolve: finish } = Promise.withResolvers<void>());
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      if (request.method === "DELETE") return Response.json({ ...RESPONSE, deleted: true });
      if (pathname.endsWith("/cancel")) return Response.json({ ...RESPONSE, status: "cancelled" });
      if (request.method === "POST" || searchParams.get("stream") === "true") return openStream();
      if (readsHang) await finished;
      return Response.json(RESPONSE);
    },
  });
});
afterEach(async () => {
  finish();
  await gateway.stop();
  await upstream.stop(true);
});

function openStream(): Response {
  async function* body(): AsyncGenerator<string> {
    yield BEGINNING;
    await finished;
    yield event("response.completed", { response: { ...RESPONSE, status: "completed" } });
  }
  return new Response(body(), { headers: { "content-type": "text/event-stream" } });
}

/** The key's only slot and request of a minute are taken by a stream that has begun. */
async function startWithOpenStream(limits: GatewayOptions["limits"] = {}): Promise<void> {
  const account = {
    name: "own",
    kind: "openai",
    base_url: `http://127.0.0.1:${upstream.port}/v1`,
    credential: "credential",
    private_network: true,
    interfaces: ["responses"],
    models: { m: "m" },
  };
  gateway = await startTestGateway({
    limits,
    file: JSON.stringify({
      models: [{ id: "m", interfaces: ["responses"] }],
      accounts: [account],
      groups: [
        {
          name: "default",
          interfaces: ["responses"],
          models: ["m"],
          accounts: ["own"],
          queue: { max_waiting: 0 },
        },
      ],
      keys: [{ name: "test", group: "default", secret: TEST_KEY, limits: { concurrency: 1, rpm: 1 } }],
    }),
  });
  const response = await create();
  expect(response.status).toBe(200);
  await response.body?.getReader().read();
}

const create = () => gateway.call("/v1/responses", { model: "m", input: "Hello", stream: true });
const call = (method: "GET" | "POST" | "DELETE", path: string) => gateway.call(path, undefined, { method });
const retrieve = () => call("GET", STORED);
const stream = (signal?: AbortSignal) =>
  gateway.call(`${STORED}?stream=true`, undefined, { method: "GET", ...(signal && { signal }) });
const cancel = () => call("POST", `${STORED}/cancel`);

test("a key at its limits can poll, continue, cancel and delete the response that takes them", async () => {
  await startWithOpenStream();
  await expectRejection(await create(), 429);
  for (const send of [retrieve, stream, cancel, () => call("DELETE", STORED)])
    expect((await send()).status).toBe(200);
});

test("a response is cancelled and deleted while reads of it wait for the upstream", async () => {
  await startWithOpenStream({ forwardedStoredCallsOfKey: { inProgressMax: 1, waitingMax: 1 } });
  readsHang = true;
  // One at the upstream, one that waits, and one too many, in any order.
  const reads = [retrieve(), retrieve(), retrieve()];
  expect((await Promise.race(reads)).status).toBe(429);
  expect((await cancel()).status).toBe(200);
  expect((await call("DELETE", STORED)).status).toBe(200);
  finish();
  const statuses = (await Promise.all(reads)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([200, 200, 429]);
});

test("a key has a bounded number of streams of stored responses, each until its end", async () => {
  await startWithOpenStream({ forwardedStoredStreamsOfKey: { inProgressMax: 2, waitingMax: 0 } });
  const leaving = new AbortController();
  expect((await stream(leaving.signal)).status).toBe(200);
  const other = await stream();
  const { code, message } = await expectRejection(await stream(), 429);
  expect([code, message]).toEqual(["rate_limit_exceeded", expect.stringContaining("streams")]);
  leaving.abort();
  await eventually(async () => (await stream()).status === 200);
  expect((await stream()).status).toBe(429);
  finish();
  expect(await other.text()).toContain("response.completed");
  await eventually(async () => (await stream()).status === 200);
});
