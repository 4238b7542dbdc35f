/** A connection that becomes a WebSocket, and requests that only appear to request one. */

import { describe, expect, test } from "bun:test";
import { wholePart } from "../../src/base/parts.ts";
import { buildFrame, FrameReader, TEXT } from "../../src/net/websocket/frames.ts";
import { eventually } from "../support/eventually.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { rejectionIn } from "./expect-rejection.ts";
import { chatBody, get, post } from "./messages.ts";
import { startServerForTests } from "./test-gateway.ts";

const ASK = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
/** The accept value for that key, as in RFC 6455. */
const ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const server = startServerForTests({ models: { fast: "sim-fast" } });

function frame(value: object): Buffer {
  return Buffer.from(
    buildFrame(TEXT, wholePart(Buffer.from(JSON.stringify(value))), new Uint8Array([1, 2, 3, 4])),
  );
}

const turn = (input: string) => frame({ type: "response.create", model: "fast", input });

/** The types of the events received since the response. */
function types(): string[] {
  const reader = new FrameReader({ isMasked: false, messageBytesMax: 2 ** 30 });
  const found: string[] = [];
  reader.push(Buffer.from(server.client.unread()), {
    onMessage: (_opcode, from, start, end) => {
      found.push(JSON.parse(Buffer.from(from.subarray(start, end)).toString()).type);
    },
    onControl() {},
  });
  return found;
}

const completed = (count: number) =>
  eventually(() => types().filter((type) => type === "response.completed").length, { equals: count });

async function expectUpgraded(): Promise<void> {
  const response = await server.client.readResponse();
  expect([response.status, response.header("sec-websocket-accept")]).toEqual([101, ACCEPT]);
  expect(response.header("upgrade")?.toLowerCase()).toBe("websocket");
  expect(response.header("connection")?.toLowerCase()).toBe("upgrade");
  expect(response.header("x-request-id")).toMatch(/^req_/);
  expect([response.header("content-length"), response.header("transfer-encoding")]).toEqual([null, null]);
}

describe("an upgrade", () => {
  test("succeeds and serves turns", async () => {
    await server.connect();
    await server.client.send(get("/v1/responses", ...ASK));
    await expectUpgraded();
    await server.client.send(turn("Hello"));
    await completed(1);
  });

  test.each([
    ["in another case", ["connection: upgrade", "upgrade: WebSocket", ...ASK.slice(2)]],
    ["among other options", ["Connection: keep-alive, Upgrade", ...ASK.slice(1)]],
  ])("is recognized %s", async (_, fields) => {
    await server.connect();
    await server.client.send(get("/v1/responses", ...fields));
    await expectUpgraded();
  });

  test("keeps a frame in the same packet", async () => {
    await server.connect();
    await server.client.send(Buffer.concat([Buffer.from(get("/v1/responses", ...ASK)), turn("Hello")]));
    await expectUpgraded();
    await completed(1);
  });

  test("keeps all frames for any packet boundary", async () => {
    const head = Buffer.from(get("/v1/responses", ...ASK));
    const all = Buffer.concat([head, turn("One"), turn("Two")]);
    for (let cut = 1; cut < all.length; cut += cut > head.length - 6 && cut < head.length + 8 ? 1 : 11) {
      await server.connect();
      await server.client.sendPieces([all.subarray(0, cut), all.subarray(cut)]);
      await expectUpgraded();
      await completed(2);
    }
  });

  test("can follow other requests on the same connection", async () => {
    await server.connect();
    const before = get("/healthz") + post(chatBody()) + get("/v1/responses", ...ASK);
    await server.client.send(Buffer.concat([Buffer.from(before), turn("Hello")]));
    expect((await server.client.readResponse()).status).toBe(200);
    expect((await server.client.readResponse()).status).toBe(200);
    await expectUpgraded();
    await completed(1);
  });

  test("that is rejected leaves the connection usable or closes it", async () => {
    await server.connect();
    await server.client.send(get("/v1/responses", ...ASK).replace(TEST_KEY, "nobody"));
    rejectionIn(await server.client.readResponse(), 401);
    await server.client.send(get("/healthz"));
    const next = await server.client.next();
    if (typeof next !== "string") expect(next.status).toBe(200);
  });

  test.each([
    ["no key", ASK.toSpliced(3, 1)],
    ["a key that is too short", ASK.toSpliced(3, 1, "Sec-WebSocket-Key: c2hvcnQ=")],
    ["another version", ASK.toSpliced(2, 1, "Sec-WebSocket-Version: 8")],
    ["no version", ASK.toSpliced(2, 1)],
    ["no Upgrade option in Connection", ASK.toSpliced(0, 1, "Connection: keep-alive")],
    ["another protocol", ASK.toSpliced(1, 1, "Upgrade: h2c")],
  ])("with %s is rejected with an error", async (_, fields) => {
    await server.connect();
    await server.client.send(get("/v1/responses", ...fields));
    rejectionIn(await server.client.readResponse(), 400, 426);
  });

  test.each([
    ["with its head", `${get("/v1/responses", ...ASK, "Content-Length: 4")}BODY`],
    ["later", get("/v1/responses", ...ASK, "Content-Length: 4")],
    ["in chunks", get("/v1/responses", ...ASK, "Transfer-Encoding: chunked")],
  ])("with a body is rejected with an error, if the body comes %s", async (_, request) => {
    await server.connect();
    await server.client.send(request);
    expect(rejectionIn(await server.client.readResponse(), 400).code).toBe("invalid_request");
  });

  test("in HTTP/1.0 is rejected", async () => {
    await server.connect();
    await server.client.send(get("/v1/responses", ...ASK).replace("HTTP/1.1", "HTTP/1.0"));
    rejectionIn(await server.client.readResponse(), 400, 426);
  });
});

describe("a request for an unsupported upgrade is served normally:", () => {
  test.each([
    ["a WebSocket at another path", get("/v1/models", ...ASK)],
    ["a WebSocket with a body", post(chatBody(), ...ASK)],
    [
      "HTTP/2",
      get(
        "/v1/models",
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
      ),
    ],
    ["HTTP/2 with a body", post(chatBody(), "Connection: Upgrade", "Upgrade: h2c")],
    ["TLS", get("/v1/models", "Connection: Upgrade", "Upgrade: TLS/1.2")],
  ])("%s", async (_, request) => {
    await server.connect();
    await server.client.send(request + get("/healthz"));
    const response = await server.client.readResponse();
    expect([response.status, response.header("upgrade")]).toEqual([200, null]);
    expect((await server.client.readResponse()).status).toBe(200);
  });
});
