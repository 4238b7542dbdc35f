/** `Expect: 100-continue`: a client that waits gets either 100 Continue or the error, never both. */

import { expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { rejectionIn } from "./expect-rejection.ts";
import { chatBody, chunk, get, post, postHead } from "./messages.ts";
import { startServerForTests } from "./test-gateway.ts";

const ASK = "Expect: 100-continue";
const BODY = chatBody();
const LENGTH = `Content-Length: ${BODY.length}`;

const server = startServerForTests({ models: { fast: "sim-fast" } });

test.each([
  ["with a length", LENGTH, BODY],
  ["in chunks", "Transfer-Encoding: chunked", chunk(BODY) + chunk("")],
])("a client that waits gets 100 Continue: %s", async (_, framing, body) => {
  await server.connect();
  for (const ask of [ASK, "expect: 100-Continue"]) {
    await server.client.send(postHead(framing, ask));
    const response = await server.client.readResponse();
    expect([response.status, response.framing]).toEqual([100, "none"]);
    await server.client.send(body);
    expect((await server.client.readResponse()).status).toBe(200);
  }
});

test("a client that does not wait is served", async () => {
  await server.connect();
  await server.client.send(post(BODY, ASK));
  const first = await server.client.readResponse();
  expect((first.status === 100 ? await server.client.readResponse() : first).status).toBe(200);
  await server.client.send(get("/healthz"));
  expect((await server.client.readResponse()).status).toBe(200);
});

test.each([
  ["for an invalid key", postHead(LENGTH, ASK).replace(TEST_KEY, "nobody"), 401],
  ["for a body that is too large", postHead("Content-Length: 999999999", ASK), 413],
  ["for another content type", postHead(LENGTH, ASK).replace("application/json", "text/plain"), 415],
  ["for an unknown path", postHead(LENGTH, ASK).replace("/v1/chat", "/v1/chit"), 404],
  ["for an unsupported method", postHead(LENGTH, ASK).replace("POST", "PUT"), 405],
])("an error replaces 100 Continue: %s", async (_, head, status) => {
  await server.connect();
  await server.client.send(head);
  rejectionIn(await server.client.readResponse(), status);
});

test("bytes after an error are treated as the body, never as a request", async () => {
  await server.connect();
  const inner = get("/healthz");
  await server.client.send(postHead(`Content-Length: ${inner.length}`, ASK).replace(TEST_KEY, "nobody"));
  rejectionIn(await server.client.readResponse(), 401);
  await server.client.send(inner);
  await server.client.send(get("/nowhere"));
  const next = await server.client.next();
  if (typeof next !== "string") expect(next.status).toBe(404);
});

test("a request without a body does not get 100 Continue", async () => {
  await server.connect();
  await server.client.send(get("/v1/models", ASK));
  expect((await server.client.readResponse()).status).toBe(200);
});

test("Expect is ignored in HTTP/1.0", async () => {
  await server.connect();
  await server.client.send(post(BODY, ASK).replace("HTTP/1.1", "HTTP/1.0"));
  expect((await server.client.readResponse()).status).toBe(200);
});

test.each(["200-maybe", "100-continue, more", "x"])(
  "an unknown expectation is rejected: %s",
  async (expected) => {
    await server.connect();
    await server.client.send(post(BODY, `Expect: ${expected}`));
    rejectionIn(await server.client.readResponse(), 417);
  },
);
