/** Slow clients: for a head, for a body, for the next request. All waits are bounded. */

import { describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { startTestGateway } from "../support/running-gateway.ts";
import { rejectionIn } from "./expect-rejection.ts";
import { chatBody, get, post, postHead } from "./messages.ts";
import { openRawClient } from "./raw-client.ts";
import { startServerForTests } from "./test-gateway.ts";

const BODY = chatBody();
const EVERY_MS = 50;

const server = startServerForTests({
  models: { fast: "sim-fast", slow: "sim-fast@first=700ms", stream: "sim-fast@events=6,interval=120ms" },
  limits: {
    bodyIdleTimeoutMs: 250,
    connections: {
      ...limits.connections,
      headMs: 200,
      firstByteMs: 600,
      idleMs: 300,
      lingerMs: 2_000,
      checkMs: 20,
    },
  },
});

/** Sends a byte at intervals until the server closes. */
async function trickle(text: string): Promise<void> {
  let isReceived = false;
  void server.client.closed.then(() => {
    isReceived = true;
  });
  for (const byte of Buffer.from(text, "latin1")) {
    if (isReceived || server.client.unread().length > 0) return;
    await server.client.send(Uint8Array.of(byte));
    await Bun.sleep(EVERY_MS);
  }
}

const arrived = () => server.gateway.simulator.ledger.totals().requests;

describe("a head that does not arrive in time", () => {
  test.each([
    ["a letter", "G"],
    ["half of the request line", "GET /v1/mod"],
    ["a line", "GET /v1/models HTTP/1.1\r\n"],
    ["all but its last byte", get("/v1/models").slice(0, -1)],
  ])("gets an error after %s", async (_, part) => {
    await server.connect();
    await server.client.send(part);
    const response = await server.client.readResponse();
    expect(rejectionIn(response, 408).code).toBe("request_timeout");
    expect(response.header("connection")).toBe("close");
    expect(await server.client.next()).toBe("fin");
  });

  test("gets an error even if bytes arrive slowly", async () => {
    await server.connect();
    await trickle(get("/v1/models", `X-Long: ${"x".repeat(10_000)}`));
    rejectionIn(await server.client.readResponse(), 408);
    expect(await server.client.next()).toBe("fin");
  });

  test("gets an error on a connection that was used before", async () => {
    await server.connect();
    await server.client.send(get("/healthz") + get("/healthz").slice(0, 20));
    expect((await server.client.readResponse()).status).toBe(200);
    rejectionIn(await server.client.readResponse(), 408);
    expect(await server.client.next()).toBe("fin");
  });
});

describe("an idle connection", () => {
  test("is closed without a response", async () => {
    await server.connect();
    expect(await server.client.next()).toBe("fin");
  });

  test("is closed without a response after its last request", async () => {
    await server.connect();
    for (const request of [get("/healthz"), post(BODY)]) {
      await server.client.send(request);
      expect((await server.client.readResponse()).status).toBe(200);
    }
    expect(await server.client.next()).toBe("fin");
  });

  test("is closed without a response even if empty lines arrive", async () => {
    await server.connect();
    await trickle("\r\n".repeat(200));
    expect(typeof (await server.client.next())).toBe("string");
  });
});

describe("a body that does not arrive in time", () => {
  test.each([
    ["with a length", `Content-Length: ${BODY.length}`, BODY.slice(0, 20)],
    ["with a length of megabytes", "Content-Length: 5000000", BODY.slice(0, 20)],
    ["without any bytes", `Content-Length: ${BODY.length}`, ""],
    ["in chunks", "Transfer-Encoding: chunked", `5\r\n${BODY.slice(0, 5)}\r\n5\r\n`],
    ["within the size of a chunk", "Transfer-Encoding: chunked", "5"],
    [
      "without its last chunk",
      "Transfer-Encoding: chunked",
      `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n`,
    ],
  ])("gets an error: %s", async (_, framing, part) => {
    const before = arrived();
    await server.connect();
    await server.client.send(postHead(framing) + part);
    const response = await server.client.readResponse();
    expect(rejectionIn(response, 408).code).toBe("request_timeout");
    // Nothing can be read after a body that never ends.
    expect(response.header("connection")).toBe("close");
    expect(await server.client.next()).toBe("fin");
    expect(arrived()).toBe(before);
  });

  test.each([
    ["with a length", "Content-Length: 1000", "x".repeat(1_000)],
    ["in chunks", "Transfer-Encoding: chunked", "1\r\nx\r\n".repeat(5_000)],
    ["with an endless extension", "Transfer-Encoding: chunked", `1;${"x".repeat(5_000)}`],
  ])("gets an error even if bytes arrive slowly: %s", async (_, framing, text) => {
    await server.connect();
    await server.client.send(postHead(framing));
    await trickle(text);
    rejectionIn(await server.client.readResponse(), 408);
    server.client.close("fin");
  });
});

describe("a legitimately slow client is not timed out:", () => {
  test("it waits for its response longer than the idle timeout", async () => {
    await server.connect();
    await server.client.send(post(chatBody({ model: "slow" })));
    expect((await server.client.readResponse()).status).toBe(200);
    await server.client.send(get("/healthz"));
    expect((await server.client.readResponse()).status).toBe(200);
  });

  test("it receives a stream longer than the idle timeout", async () => {
    await server.connect();
    await server.client.send(post(chatBody({ model: "stream", stream: true })));
    expect((await server.client.readResponse()).body.toString()).toEndWith("data: [DONE]\n\n");
  });
});

test("idle connections do not delay the shutdown", async () => {
  const ending = await startTestGateway({ limits: { drainTimeoutMs: 600_000 } });
  const clients = await Promise.all(Array.from({ length: 4 }, () => openRawClient(ending.url)));
  const [, used, begun, refused] = clients;
  await used?.send(get("/healthz"));
  expect((await used?.readResponse())?.status).toBe(200);
  await begun?.send(get("/healthz").slice(0, 20));
  await refused?.send(get("/healthz").replaceAll("\r\n", "\n"));
  expect((await refused?.readResponse())?.status).toBe(400);
  const ended = ending.stop().then(() => true);
  expect(await Promise.race([ended, Bun.sleep(10_000).then(() => false)])).toBe(true);
  for (const { closed } of clients) await closed;
  for (const one of clients) one.close("fin");
});
