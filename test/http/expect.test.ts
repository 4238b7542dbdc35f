/** `Expect: 100-continue`: a client that waits gets either 100 Continue or the error, never both. */

import { expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { refusalIn } from "./expect-refusal.ts";
import { chatBody, chunk, get, post, postHead } from "./messages.ts";
import { openDoor } from "./test-gateway.ts";

const ASK = "Expect: 100-continue";
const BODY = chatBody();
const LENGTH = `Content-Length: ${BODY.length}`;

const door = openDoor({ models: { fast: "sim-fast" } });

test.each([
  ["with a length", LENGTH, BODY],
  ["in chunks", "Transfer-Encoding: chunked", chunk(BODY) + chunk("")],
])("a client that waits gets 100 Continue: %s", async (_, framing, body) => {
  await door.open();
  for (const ask of [ASK, "expect: 100-Continue"]) {
    await door.client.send(postHead(framing, ask));
    const told = await door.client.answer();
    expect([told.status, told.framing]).toEqual([100, "none"]);
    await door.client.send(body);
    expect((await door.client.answer()).status).toBe(200);
  }
});

test("a client that does not wait is served", async () => {
  await door.open();
  await door.client.send(post(BODY, ASK));
  const first = await door.client.answer();
  expect((first.status === 100 ? await door.client.answer() : first).status).toBe(200);
  await door.client.send(get("/healthz"));
  expect((await door.client.answer()).status).toBe(200);
});

test.each([
  ["for an invalid key", postHead(LENGTH, ASK).replace(TEST_KEY, "nobody"), 401],
  ["for a body that is too large", postHead("Content-Length: 999999999", ASK), 413],
  ["for another content type", postHead(LENGTH, ASK).replace("application/json", "text/plain"), 415],
  ["for an unknown path", postHead(LENGTH, ASK).replace("/v1/chat", "/v1/chit"), 404],
  ["for an unsupported method", postHead(LENGTH, ASK).replace("POST", "PUT"), 405],
])("an error replaces 100 Continue: %s", async (_, head, status) => {
  await door.open();
  await door.client.send(head);
  refusalIn(await door.client.answer(), status);
});

test("bytes after an error are treated as the body, never as a request", async () => {
  await door.open();
  const inner = get("/healthz");
  await door.client.send(postHead(`Content-Length: ${inner.length}`, ASK).replace(TEST_KEY, "nobody"));
  refusalIn(await door.client.answer(), 401);
  await door.client.send(inner);
  await door.client.send(get("/nowhere"));
  const next = await door.client.next();
  if (typeof next !== "string") expect(next.status).toBe(404);
});

test("a request without a body does not get 100 Continue", async () => {
  await door.open();
  await door.client.send(get("/v1/models", ASK));
  expect((await door.client.answer()).status).toBe(200);
});

test("Expect is ignored in HTTP/1.0", async () => {
  await door.open();
  await door.client.send(post(BODY, ASK).replace("HTTP/1.1", "HTTP/1.0"));
  expect((await door.client.answer()).status).toBe(200);
});

test.each(["200-maybe", "100-continue, more", "x"])(
  "an unknown expectation is rejected: %s",
  async (expected) => {
    await door.open();
    await door.client.send(post(BODY, `Expect: ${expected}`));
    refusalIn(await door.client.answer(), 417);
  },
);
