/**
 * Where a request ends and the next one begins, for any packet boundaries and any number of requests per connection.
 */

import { describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { CHAT, chatBody, get, HOST, KEY, message, post, postChunked, TYPE } from "./messages.ts";
import { startServerForTests } from "./test-gateway.ts";

const MODELS = {
  fast: "sim-fast",
  slow: "sim-fast@first=50ms",
  stream: "sim-fast@events=3",
  silent: "fault/blackhole",
};

const server = startServerForTests({ models: MODELS });

const ledger = () => server.gateway.simulator.ledger;
const arrived = () => ledger().totals().requests;
const lastBody = () => Buffer.from(ledger().findBody(ledger().last()?.id ?? "") ?? []).toString();
const asAsked = (body: string) => body.replace('"fast"', '"sim-fast"');

async function statuses(count: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i++) found.push((await server.client.readResponse()).status);
  return found;
}

/** Ends with the text, so that a lost or extra byte is seen upstream. */
const BODY = chatBody({ user: "Zoë" });

describe("a request split in two at any byte is reassembled:", () => {
  test.each([
    ["with a length", post(BODY)],
    ["in chunks", postChunked([BODY.slice(0, 10), BODY.slice(10, 30), BODY.slice(30)])],
    [
      "in chunks, with extensions and trailers",
      message(
        `POST ${CHAT} HTTP/1.1`,
        [HOST, KEY, TYPE, "Transfer-Encoding: chunked"],
        `${Buffer.byteLength(BODY).toString(16)};a=b;c="d"\r\n${BODY}\r\n0;e\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n`,
      ),
    ],
  ])("%s", async (_, request) => {
    const bytes = Buffer.from(request);
    await server.connect();
    for (let cut = 1; cut < bytes.length; cut++) {
      const before = arrived();
      await server.client.sendPieces([bytes.subarray(0, cut), bytes.subarray(cut)]);
      const { status } = await server.client.readResponse();
      expect([cut, status, arrived() - before, lastBody()]).toEqual([cut, 200, 1, asAsked(BODY)]);
    }
  });

  test.each([
    ["with a length", post(BODY)],
    ["in chunks", postChunked([...BODY])],
  ])("split into single bytes, %s", async (_, request) => {
    await server.connect();
    const bytes = Buffer.from(request);
    await server.client.sendPieces(Array.from(bytes, (_byte, at) => bytes.subarray(at, at + 1)));
    expect((await server.client.readResponse()).status).toBe(200);
    expect(lastBody()).toBe(asAsked(BODY));
  });
});

describe("pipelined requests", () => {
  test("in one packet are answered in order", async () => {
    await server.connect();
    const slow = chatBody({ model: "slow" });
    const stream = chatBody({ model: "stream", stream: true });
    await server.client.send(
      [get("/healthz"), post(slow), get("/nowhere"), postChunked([stream]), get("/v1/models/slow")].join(""),
    );
    expect((await server.client.readResponse()).body.toString()).toBe('{"status":"ok"}');
    expect(JSON.parse((await server.client.readResponse()).body.toString()).model).toBe("slow");
    expect((await server.client.readResponse()).status).toBe(404);
    expect((await server.client.readResponse()).body.toString()).toEndWith("data: [DONE]\n\n");
    expect(JSON.parse((await server.client.readResponse()).body.toString()).id).toBe("slow");
  });

  test("are processed one at a time", async () => {
    await server.connect();
    ledger().reset();
    await server.client.send(post(chatBody({ model: "slow" })).repeat(5));
    expect(await statuses(5)).toEqual([200, 200, 200, 200, 200]);
    expect(ledger().totals()).toMatchObject({ requests: 5, peakInFlight: 1 });
  });

  test("can be a hundred, split anywhere", async () => {
    await server.connect();
    const all = Buffer.from((post(BODY) + get("/healthz") + postChunked([BODY])).repeat(34));
    const pieces: Buffer[] = [];
    for (let at = 0, size = 1; at < all.length; at += size, size = (size * 7) % 1_021) {
      pieces.push(all.subarray(at, at + size));
    }
    const before = arrived();
    await server.client.sendPieces(pieces);
    expect(await statuses(102)).toEqual(Array(102).fill(200));
    expect(arrived()).toBe(before + 68);
  });

  test("split at the boundary between body and head are two requests", async () => {
    await server.connect();
    const both = post(BODY) + post(BODY);
    for (let cut = both.length / 2 - 3; cut <= both.length / 2 + 3; cut++) {
      await server.client.sendPieces([both.slice(0, cut), both.slice(cut)]);
      expect(await statuses(2)).toEqual([200, 200]);
    }
  });

  test.each(["GET", "HEAD", "DELETE"])("are found after an unexpected body: %s", async (method) => {
    await server.connect();
    const inner = get("/nowhere");
    const outer = message(`${method} /healthz HTTP/1.1`, [HOST, `Content-Length: ${inner.length}`], inner);
    await server.client.send(outer + get("/v1/models"));
    expect((await server.client.readResponse(method === "HEAD" ? "HEAD" : undefined)).status).toBe(
      method === "DELETE" ? 405 : 200,
    );
    // The connection may end here, but the content of a body is never a request.
    const next = await server.client.next();
    if (typeof next !== "string") expect(next.status).toBe(200);
  });

  /** Some clients send an extra empty line after a body. */
  test("are found after an empty line, split anywhere", async () => {
    await server.connect();
    const both = `${post(BODY)}\r\n${get("/healthz")}`;
    for (let cut = post(BODY).length - 2; cut <= post(BODY).length + 4; cut++) {
      await server.client.sendPieces([both.slice(0, cut), both.slice(cut)]);
      expect(await statuses(2)).toEqual([200, 200]);
    }
    await server.client.sendPieces(["\r", "\n", get("/healthz")]);
    expect(await statuses(1)).toEqual([200]);
  });
});

describe("a connection", () => {
  test("is kept open after a response in HTTP/1.1", async () => {
    await server.connect();
    for (let i = 0; i < 3; i++) {
      await server.client.send(get("/healthz"));
      const response = await server.client.readResponse();
      expect(response.status).toBe(200);
      expect(response.header("connection") ?? "keep-alive").toBe("keep-alive");
    }
  });

  test.each(["/healthz", "/nowhere", "/v1/models", "/v1/models/nothing"])(
    "is kept open after any response: %s",
    async (path) => {
      await server.connect();
      await server.client.send(get(path));
      await server.client.readResponse();
      await server.client.send(get("/healthz"));
      expect((await server.client.readResponse()).status).toBe(200);
    },
  );

  test.each(["close", "Close", "keep-alive, close", "close, te"])(
    "is closed on request, with Connection: close in the response: %s",
    async (option) => {
      await server.connect();
      await server.client.send(get("/healthz", `Connection: ${option}`) + get("/v1/models"));
      const response = await server.client.readResponse();
      expect([response.status, response.header("connection")]).toEqual([200, "close"]);
      expect(await server.client.next()).toBe("fin");
    },
  );

  test("is closed after a stream on request", async () => {
    await server.connect();
    await server.client.send(post(chatBody({ model: "stream", stream: true }), "Connection: close"));
    const response = await server.client.readResponse();
    expect(response.header("connection")).toBe("close");
    expect(response.body.toString()).toEndWith("data: [DONE]\n\n");
    expect(await server.client.next()).toBe("fin");
  });

  test.each([
    ["a small response", message("GET /healthz HTTP/1.0", [HOST])],
    ["without a Host", message("GET /healthz HTTP/1.0", [])],
    ["a call", post(BODY).replace("HTTP/1.1", "HTTP/1.0")],
  ])("of HTTP/1.0 is closed after %s", async (_, request) => {
    await server.connect();
    await server.client.send(request);
    const response = await server.client.readResponse();
    expect([response.status, response.framing]).toEqual([200, "length"]);
    expect(await server.client.next()).toBe("fin");
  });

  test("of HTTP/1.0 delivers a stream without chunks until it closes", async () => {
    await server.connect();
    const body = chatBody({ model: "stream", stream: true });
    await server.client.send(post(body).replace("HTTP/1.1", "HTTP/1.0"));
    const response = await server.client.readResponse();
    expect([response.status, response.framing]).toEqual([200, "until_close"]);
    expect(response.body.toString()).toEndWith("data: [DONE]\n\n");
  });

  test("of HTTP/1.0 is kept open only if the response has keep-alive", async () => {
    await server.connect();
    await server.client.send(message("GET /healthz HTTP/1.0", [HOST, "Connection: keep-alive"]));
    const response = await server.client.readResponse();
    if (response.header("connection")?.toLowerCase() !== "keep-alive") {
      expect(await server.client.next()).toBe("fin");
      return;
    }
    await server.client.send(get("/healthz"));
    expect((await server.client.readResponse()).status).toBe(200);
  });
});

describe("a client that half-closes its connection", () => {
  test("still gets an immediate response", async () => {
    for (const path of ["/healthz", "/v1/models", "/nowhere"]) {
      await server.connect();
      await server.client.send(get(path));
      server.client.finish();
      expect((await server.client.readResponse()).status).toBe(path === "/nowhere" ? 404 : 200);
      expect(await server.client.next()).toBe("fin");
    }
  });

  /**
   * A half-closed connection cannot be distinguished from a closed one, and work for a disconnected client costs money.
   */
  test("counts as disconnected while it waits", async () => {
    await server.connect();
    ledger().reset();
    await server.client.send(post(chatBody({ model: "silent" })));
    await eventually(() => ledger().totals().inFlight, { equals: 1 });
    server.client.finish();
    await eventually(() => ledger().totals().inFlight, { equals: 0 });
    expect(ledger().last()).toMatchObject({ abortedByClient: true });
    await server.client.closed;
  });

  test("within a request has sent no request", async () => {
    const before = arrived();
    for (const cut of [5, 60, post(BODY).length - 1]) {
      await server.connect();
      await server.client.send(post(BODY).slice(0, cut));
      server.client.finish();
      const next = await server.client.next();
      if (typeof next !== "string") expect([400, 408]).toContain(next.status);
      await server.client.closed;
    }
    expect(arrived()).toBe(before);
  });

  test("cancels its pipelined requests", async () => {
    await server.connect();
    ledger().reset();
    await server.client.send(post(chatBody({ model: "silent" })) + post(BODY));
    await eventually(() => ledger().totals().inFlight, { equals: 1 });
    server.client.close("fin");
    await eventually(() => ledger().totals().inFlight, { equals: 0 });
    expect(ledger().totals().requests).toBe(1);
  });
});
