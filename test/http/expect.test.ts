/** `Expect: 100-continue`: a client that asks before it sends is told to go on, or why not, and never both. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../running-gateway.ts";
import { chatBody, chunk, get, post, postHead } from "./messages.ts";
import { openWire, type WireClient } from "./raw-client.ts";
import { refusalIn } from "./refusals.ts";

const ASK = "Expect: 100-continue";
const BODY = chatBody();
const LENGTH = `Content-Length: ${BODY.length}`;

let gateway: RunningGateway;
let client: WireClient;

beforeAll(async () => {
  gateway = await startTestGateway({ models: { fast: "sim-fast" } });
});

afterAll(async () => {
  client?.leave("fin");
  await gateway.stop();
});

async function open(): Promise<WireClient> {
  client?.leave("fin");
  client = await openWire(gateway.url);
  return client;
}

test.each([
  ["with a length", LENGTH, BODY],
  ["in chunks", "Transfer-Encoding: chunked", chunk(BODY) + chunk("")],
])("a client that waits is told to go on: %s", async (_, framing, body) => {
  await open();
  for (const ask of [ASK, "expect: 100-Continue"]) {
    await client.send(postHead(framing, ask));
    const told = await client.answer();
    expect([told.status, told.framing]).toEqual([100, "none"]);
    await client.send(body);
    expect((await client.answer()).status).toBe(200);
  }
});

test("a client that does not wait is answered all the same", async () => {
  await open();
  await client.send(post(BODY, ASK));
  const first = await client.answer();
  expect((first.status === 100 ? await client.answer() : first).status).toBe(200);
  await client.send(get("/healthz"));
  expect((await client.answer()).status).toBe(200);
});

test.each([
  ["for a wrong key", postHead(LENGTH, ASK).replace(TEST_KEY, "nobody"), 401],
  ["for too large a body", postHead("Content-Length: 999999999", ASK), 413],
  ["for another type", postHead(LENGTH, ASK).replace("application/json", "text/plain"), 415],
  ["for no such place", postHead(LENGTH, ASK).replace("/v1/chat", "/v1/chit"), 404],
  ["for no such method", postHead(LENGTH, ASK).replace("POST", "PUT"), 405],
])("a refusal comes instead of it: %s", async (_, head, status) => {
  await open();
  await client.send(head);
  refusalIn(await client.answer(), status);
});

test("what is sent after a refusal is a body or nothing, and no request", async () => {
  await open();
  const inner = get("/healthz");
  await client.send(postHead(`Content-Length: ${inner.length}`, ASK).replace(TEST_KEY, "nobody"));
  refusalIn(await client.answer(), 401);
  await client.send(inner);
  await client.send(get("/nowhere"));
  const next = await client.next();
  if (typeof next !== "string") expect(next.status).toBe(404);
});

test("a request without a body is not told to send one", async () => {
  await open();
  await client.send(get("/v1/models", ASK));
  expect((await client.answer()).status).toBe(200);
});

test("a client of 1.0 does not know the word", async () => {
  await open();
  await client.send(post(BODY, ASK).replace("HTTP/1.1", "HTTP/1.0"));
  expect((await client.answer()).status).toBe(200);
});

test.each(["200-maybe", "100-continue, more", "x"])(
  "another expectation is not met: %s",
  async (expected) => {
    await open();
    await client.send(post(BODY, `Expect: ${expected}`));
    refusalIn(await client.answer(), 417);
  },
);
