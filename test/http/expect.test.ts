/** `Expect: 100-continue`: a client that asks before it sends is told to go on, or why not, and never both. */

import { expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { openDoor } from "./door.ts";
import { chatBody, chunk, get, post, postHead } from "./messages.ts";
import { refusalIn } from "./refusals.ts";

const ASK = "Expect: 100-continue";
const BODY = chatBody();
const LENGTH = `Content-Length: ${BODY.length}`;

const door = openDoor({ models: { fast: "sim-fast" } });

test.each([
  ["with a length", LENGTH, BODY],
  ["in chunks", "Transfer-Encoding: chunked", chunk(BODY) + chunk("")],
])("a client that waits is told to go on: %s", async (_, framing, body) => {
  await door.open();
  for (const ask of [ASK, "expect: 100-Continue"]) {
    await door.client.send(postHead(framing, ask));
    const told = await door.client.answer();
    expect([told.status, told.framing]).toEqual([100, "none"]);
    await door.client.send(body);
    expect((await door.client.answer()).status).toBe(200);
  }
});

test("a client that does not wait is answered all the same", async () => {
  await door.open();
  await door.client.send(post(BODY, ASK));
  const first = await door.client.answer();
  expect((first.status === 100 ? await door.client.answer() : first).status).toBe(200);
  await door.client.send(get("/healthz"));
  expect((await door.client.answer()).status).toBe(200);
});

test.each([
  ["for a wrong key", postHead(LENGTH, ASK).replace(TEST_KEY, "nobody"), 401],
  ["for too large a body", postHead("Content-Length: 999999999", ASK), 413],
  ["for another type", postHead(LENGTH, ASK).replace("application/json", "text/plain"), 415],
  ["for no such place", postHead(LENGTH, ASK).replace("/v1/chat", "/v1/chit"), 404],
  ["for no such method", postHead(LENGTH, ASK).replace("POST", "PUT"), 405],
])("a refusal comes instead of it: %s", async (_, head, status) => {
  await door.open();
  await door.client.send(head);
  refusalIn(await door.client.answer(), status);
});

test("what is sent after a refusal is a body or nothing, and no request", async () => {
  await door.open();
  const inner = get("/healthz");
  await door.client.send(postHead(`Content-Length: ${inner.length}`, ASK).replace(TEST_KEY, "nobody"));
  refusalIn(await door.client.answer(), 401);
  await door.client.send(inner);
  await door.client.send(get("/nowhere"));
  const next = await door.client.next();
  if (typeof next !== "string") expect(next.status).toBe(404);
});

test("a request without a body is not told to send one", async () => {
  await door.open();
  await door.client.send(get("/v1/models", ASK));
  expect((await door.client.answer()).status).toBe(200);
});

test("a client of 1.0 does not know the word", async () => {
  await door.open();
  await door.client.send(post(BODY, ASK).replace("HTTP/1.1", "HTTP/1.0"));
  expect((await door.client.answer()).status).toBe(200);
});

test.each(["200-maybe", "100-continue, more", "x"])(
  "another expectation is not met: %s",
  async (expected) => {
    await door.open();
    await door.client.send(post(BODY, `Expect: ${expected}`));
    refusalIn(await door.client.answer(), 417);
  },
);
