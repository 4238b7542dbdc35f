/** Slow clients: for a head, for a body, for the next request. All waits are bounded. */

import { describe, expect, test } from "bun:test";
import { limits } from "../../src/config/product-limits.ts";
import { startTestGateway } from "../support/running-gateway.ts";
import { refusalIn } from "./expect-refusal.ts";
import { chatBody, get, post, postHead } from "./messages.ts";
import { openWire } from "./raw-client.ts";
import { openDoor } from "./test-gateway.ts";

const BODY = chatBody();
const EVERY_MS = 50;

const door = openDoor({
  models: { fast: "sim-fast", slow: "sim-fast@first=700ms", stream: "sim-fast@events=6,interval=120ms" },
  limits: {
    bodyIdleTimeoutMs: 250,
    connections: { ...limits.connections, headMs: 200, idleMs: 300, lingerMs: 2_000, checkMs: 20 },
  },
});

/** Sends a byte at intervals until the server closes. */
async function trickle(text: string): Promise<void> {
  let isHeard = false;
  void door.client.closed.then(() => {
    isHeard = true;
  });
  for (const byte of Buffer.from(text, "latin1")) {
    if (isHeard || door.client.unread().length > 0) return;
    await door.client.send(Uint8Array.of(byte));
    await Bun.sleep(EVERY_MS);
  }
}

const arrived = () => door.gateway.simulator.ledger.totals().requests;

describe("a head that does not arrive in time", () => {
  test.each([
    ["a letter", "G"],
    ["half of the request line", "GET /v1/mod"],
    ["a line", "GET /v1/models HTTP/1.1\r\n"],
    ["all but its last byte", get("/v1/models").slice(0, -1)],
  ])("gets an error after %s", async (_, part) => {
    await door.open();
    await door.client.send(part);
    const answer = await door.client.answer();
    expect(refusalIn(answer, 408).code).toBe("request_timeout");
    expect(answer.header("connection")).toBe("close");
    expect(await door.client.next()).toBe("fin");
  });

  test("gets an error even if bytes arrive slowly", async () => {
    await door.open();
    await trickle(get("/v1/models", `X-Long: ${"x".repeat(10_000)}`));
    refusalIn(await door.client.answer(), 408);
    expect(await door.client.next()).toBe("fin");
  });

  test("gets an error on a connection that was used before", async () => {
    await door.open();
    await door.client.send(get("/healthz") + get("/healthz").slice(0, 20));
    expect((await door.client.answer()).status).toBe(200);
    refusalIn(await door.client.answer(), 408);
    expect(await door.client.next()).toBe("fin");
  });
});

describe("an idle connection", () => {
  test("is closed without a response", async () => {
    await door.open();
    expect(await door.client.next()).toBe("fin");
  });

  test("is closed without a response after its last request", async () => {
    await door.open();
    for (const request of [get("/healthz"), post(BODY)]) {
      await door.client.send(request);
      expect((await door.client.answer()).status).toBe(200);
    }
    expect(await door.client.next()).toBe("fin");
  });

  test("is closed without a response even if empty lines arrive", async () => {
    await door.open();
    await trickle("\r\n".repeat(200));
    expect(typeof (await door.client.next())).toBe("string");
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
    await door.open();
    await door.client.send(postHead(framing) + part);
    const answer = await door.client.answer();
    expect(refusalIn(answer, 408).code).toBe("request_timeout");
    // Nothing can be read after a body that never ends.
    expect(answer.header("connection")).toBe("close");
    expect(await door.client.next()).toBe("fin");
    expect(arrived()).toBe(before);
  });

  test.each([
    ["with a length", "Content-Length: 1000", "x".repeat(1_000)],
    ["in chunks", "Transfer-Encoding: chunked", "1\r\nx\r\n".repeat(5_000)],
    ["with an endless extension", "Transfer-Encoding: chunked", `1;${"x".repeat(5_000)}`],
  ])("gets an error even if bytes arrive slowly: %s", async (_, framing, text) => {
    await door.open();
    await door.client.send(postHead(framing));
    await trickle(text);
    refusalIn(await door.client.answer(), 408);
    door.client.leave("fin");
  });
});

describe("a legitimately slow client is not timed out:", () => {
  test("it waits for its response longer than the idle timeout", async () => {
    await door.open();
    await door.client.send(post(chatBody({ model: "slow" })));
    expect((await door.client.answer()).status).toBe(200);
    await door.client.send(get("/healthz"));
    expect((await door.client.answer()).status).toBe(200);
  });

  test("it receives a stream longer than the idle timeout", async () => {
    await door.open();
    await door.client.send(post(chatBody({ model: "stream", stream: true })));
    expect((await door.client.answer()).body.toString()).toEndWith("data: [DONE]\n\n");
  });
});

test("idle connections do not delay the shutdown", async () => {
  const ending = await startTestGateway({ limits: { drainTimeoutMs: 600_000 } });
  const clients = await Promise.all(Array.from({ length: 4 }, () => openWire(ending.url)));
  const [, used, begun, refused] = clients;
  await used?.send(get("/healthz"));
  expect((await used?.answer())?.status).toBe(200);
  await begun?.send(get("/healthz").slice(0, 20));
  await refused?.send(get("/healthz").replaceAll("\r\n", "\n"));
  expect((await refused?.answer())?.status).toBe(400);
  const ended = ending.stop().then(() => true);
  expect(await Promise.race([ended, Bun.sleep(10_000).then(() => false)])).toBe(true);
  for (const { closed } of clients) await closed;
  for (const one of clients) one.leave("fin");
});
