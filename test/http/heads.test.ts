/** The head of a request: which heads are valid, which are not, and that errors have the common shape. */

import { describe, expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { expectCutOff, rejectionIn } from "./expect-rejection.ts";
import { CHAT, chatBody, get, HOST, KEY, message, post, TYPE } from "./messages.ts";
import { openRawClient } from "./raw-client.ts";
import { startServerForTests } from "./test-gateway.ts";

const KiB = 1024;

const server = startServerForTests({ models: { fast: "sim-fast" } });

const MODELS = "GET /v1/models HTTP/1.1";

describe("a header", () => {
  test.each([
    ["in any case", message(MODELS, ["hOST: x", `AUTHORIZATION: bearer ${TEST_KEY}`])],
    ["without a space before its value", message(MODELS, ["Host:x", `Authorization:Bearer ${TEST_KEY}`])],
    [
      "with spaces around its value",
      message(MODELS, ["Host: \t x", `Authorization: \tBearer ${TEST_KEY} \t `]),
    ],
    ["with every valid character in its name", get("/v1/models", "!#$%&'*+-.^_`|~09azAZ: x")],
    ["with an empty value", get("/v1/models", "X-Empty:", "X-Blank:   ")],
    ["with a tab within it", get("/v1/models", "X-Tab: a\tb")],
    ["with letters beyond ASCII", get("/v1/models", "X-Name: Zoë")],
    ["with colons", get("/v1/models", "X-Time: 10:20:30")],
  ])("%s is accepted", async (_, request) => {
    expect((await server.sendAlone(request)).status).toBe(200);
  });

  test.each([
    ["with a space before its colon", "X-A : b"],
    ["with a tab before its colon", "X-A\t: b"],
    ["without a colon", "X-A"],
    ["without a name", ": b"],
    ["with a space in its name", "X A: b"],
    ["with a bracket in its name", "X(A): b"],
    ["with a letter beyond ASCII in its name", "X-Ä: b"],
    ["with a NUL in its name", "X-\0A: b"],
    ["folded by a space", "X-A: b\r\n c"],
    ["folded by a tab", "X-A: b\r\n\tc"],
    ["with a NUL", "X-A: b\0c"],
    ["with a bell", "X-A: b\u0007c"],
    ["with an escape", "X-A: b\u001bc"],
    ["with a delete", "X-A: b\u007fc"],
    ["with a bare CR", "X-A: b\rc"],
    ["with a bare CR at its end", "X-A: b\r"],
    ["ended by a bare LF", "X-A: b\nX-C: d"],
  ])("%s is rejected", async (_, field) => {
    for (const fields of [
      [HOST, KEY, field],
      [HOST, field, KEY],
    ]) {
      const error = await expectCutOff(server.gateway.url, message(MODELS, fields), 400);
      expect(error.code).toBe("invalid_request");
    }
  });

  test("after a leading space is rejected, including the first one", async () => {
    await expectCutOff(server.gateway.url, message(MODELS, [` ${HOST}`, KEY]), 400);
  });

  test("is read correctly among 60 others", async () => {
    const fields = Array.from({ length: 60 }, (_, i) => `X-Field-${i}: ${"v".repeat(i)}`);
    expect((await server.sendAlone(message(MODELS, [HOST, ...fields, KEY]))).status).toBe(200);
  });
});

describe("a head", () => {
  test.each([
    ["by bare LFs", `${MODELS}\n${HOST}\n${KEY}\n\n`],
    ["by an LF at the end of the request line", `${MODELS}\n${HOST}\r\n${KEY}\r\n\r\n`],
    ["by an LF as its last line", `${MODELS}\r\n${HOST}\r\n${KEY}\r\n\n`],
    ["by bare CRs", `${MODELS}\r${HOST}\r${KEY}\r\r`],
    ["by a CR too many", `${MODELS}\r\n${HOST}\r\n${KEY}\r\n\r\r\n`],
  ])("whose lines are ended %s is rejected", async (_, request) => {
    await expectCutOff(server.gateway.url, request, 400);
  });

  test.each([
    ["no Host", [KEY]],
    ["two Hosts", [HOST, KEY, "Host: elsewhere"]],
    ["the same Host twice", [HOST, HOST, KEY]],
    ["an empty Host", ["Host:", KEY]],
    ["two hosts in one", ["Host: a, b", KEY]],
    ["a Host with a path", ["Host: a/b", KEY]],
    ["a Host with a user", ["Host: someone@a", KEY]],
    ["a Host with a space", ["Host: a b", KEY]],
  ])("with %s is rejected", async (_, fields) => {
    const error = rejectionIn(await server.sendAlone(message(MODELS, fields)), 400);
    expect(error.message).toContain("Host");
  });

  test.each([
    "server.gateway.test",
    "server.gateway.test:8080",
    "127.0.0.1:1",
    "[::1]:8080",
    "xn--bcher-kva.example",
    "a_b",
  ])("with the Host %s is accepted", async (host) => {
    expect((await server.sendAlone(message(MODELS, [`Host: ${host}`, KEY]))).status).toBe(200);
  });

  /** Codex sends large headers. */
  test("of 60 KiB is accepted", async () => {
    expect(
      (await server.sendAlone(get("/v1/models", `X-Codex-Turn-Metadata: ${"m".repeat(60 * KiB)}`))).status,
    ).toBe(200);
  });

  test.each([
    ["in one header", [`X-Large: ${"m".repeat(65 * KiB)}`]],
    ["in one header of a megabyte", [`X-Large: ${"m".repeat(KiB * KiB)}`]],
    ["in ninety", Array.from({ length: 90 }, (_, i) => `X-${i}: ${"m".repeat(KiB)}`)],
    ["in a thousand small ones", Array.from({ length: 1_000 }, (_, i) => `X-${i}: m`)],
    ["in one name", [`X-${"m".repeat(65 * KiB)}: x`]],
  ])("that is larger or has too many headers is rejected: %s", async (_, fields) => {
    await expectCutOff(server.gateway.url, get("/v1/models", ...fields), 431);
  });

  test("that is larger is rejected before it is complete", async () => {
    const client = await openRawClient(server.gateway.url);
    await client.send(`${MODELS}\r\n${HOST}\r\nX-Large: ${"m".repeat(70 * KiB)}`);
    rejectionIn(await client.readResponse(), 431);
    expect(await client.next()).toBe("fin");
    client.close("fin");
  });
});

describe("a request line", () => {
  test.each([
    ["two spaces", "GET  /v1/models HTTP/1.1"],
    ["two spaces before the version", "GET /v1/models  HTTP/1.1"],
    ["a tab", "GET\t/v1/models\tHTTP/1.1"],
    ["a space at its end", "GET /v1/models HTTP/1.1 "],
    ["a space at its start", " GET /v1/models HTTP/1.1"],
    ["a space in the address", "GET /v1/mod els HTTP/1.1"],
    ["no version", "GET /v1/models"],
    ["no address", "GET HTTP/1.1"],
    ["nothing but a method", "GET"],
    ["a NUL in the address", "GET /v1/mod\0els HTTP/1.1"],
    ["a delete in the address", "GET /v1/mod\u007fels HTTP/1.1"],
    ["a bare CR in the address", "GET /v1/mod\rels HTTP/1.1"],
    ["a method that is not a token", "G(T /v1/models HTTP/1.1"],
  ])("with %s is rejected", async (_, line) => {
    await expectCutOff(server.gateway.url, message(line, [HOST, KEY]), 400);
  });

  test.each([
    ["*", "OPTIONS"],
    ["server.gateway.test:80", "GET"],
    ["v1/models", "GET"],
    ["ftp://server.gateway.test/v1/models", "GET"],
    ["http:///v1/models", "GET"],
  ])("with an invalid request target is rejected: %s", async (address, method) => {
    rejectionIn(await server.sendAlone(message(`${method} ${address} HTTP/1.1`, [HOST, KEY])), 400);
  });

  test.each(["http/1.1", "ICY/1.1", "HTTP/1", "HTTP/1.10", "HTTP/1.x", "HTTP/11", "HTTP1.1"])(
    "with the invalid version %s is rejected",
    async (version) => {
      await expectCutOff(server.gateway.url, message(`GET /v1/models ${version}`, [HOST, KEY]), 400, 505);
    },
  );

  test("with CONNECT is rejected", async () => {
    rejectionIn(
      await server.sendAlone(message("CONNECT example.com:443 HTTP/1.1", [HOST, KEY])),
      400,
      404,
      405,
    );
  });

  test.each(["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0"])(
    "of version %s is rejected",
    async (version) => {
      await expectCutOff(server.gateway.url, message(`GET /v1/models ${version}`, [HOST, KEY]), 505);
    },
  );

  test("of HTTP/2 with prior knowledge is rejected", async () => {
    await expectCutOff(server.gateway.url, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 505);
  });

  test("that is a TLS handshake is rejected or closed", async () => {
    const client = await openRawClient(server.gateway.url);
    await client.send(Buffer.from("16030100a5010000a10303".padEnd(340, "5a"), "hex"));
    client.finish();
    const next = await client.next();
    if (typeof next !== "string") rejectionIn(next, 400);
    await client.closed;
  });

  test("longer than the maximum head is rejected", async () => {
    await expectCutOff(server.gateway.url, get(`/v1/models?q=${"a".repeat(70 * KiB)}`), 414, 431);
  });

  test.each([
    ["an unknown method", "BREW /v1/models HTTP/1.1", 405, "method_not_allowed"],
    ["a method in lower case", "get /v1/models HTTP/1.1", 405, "method_not_allowed"],
    ["a method that the path does not support", "PROPFIND /healthz HTTP/1.1", 405, "method_not_allowed"],
    ["an unknown method for an unknown path", "BREW /nowhere HTTP/1.1", 404, "unknown_url"],
  ])("with %s returns the right error", async (_, line, status, code) => {
    expect(rejectionIn(await server.sendAlone(message(line, [HOST, KEY])), status).code).toBe(code);
  });

  test.each([
    ["GET", `http://server.gateway.test/v1/models?a=b`],
    ["GET", `http://elsewhere:1234/v1/models`],
    ["GET", `HTTP://server.gateway.test/v1/models`],
    ["POST", `http://server.gateway.test${CHAT}`],
  ])("with an absolute URL, as for a proxy, is rejected: %s %s", async (method, address) => {
    const body = method === "POST" ? chatBody() : "";
    const fields = [HOST, KEY, TYPE, `Content-Length: ${body.length}`];
    rejectionIn(await server.sendAlone(message(`${method} ${address} HTTP/1.1`, fields, body)), 400);
  });
});

test("an error ends only its own connection", async () => {
  const good = await openRawClient(server.gateway.url);
  await good.send(get("/healthz"));
  expect((await good.readResponse()).status).toBe(200);
  await expectCutOff(server.gateway.url, `${MODELS}\n\n`, 400);
  await good.send(post(chatBody()));
  expect((await good.readResponse()).status).toBe(200);
  good.close("fin");
});

test("requests before a malformed head are answered first", async () => {
  const client = await openRawClient(server.gateway.url);
  await client.send(`${post(chatBody())}${get("/healthz")}GET /\n\n${get("/healthz")}`);
  expect((await client.readResponse()).status).toBe(200);
  expect((await client.readResponse()).status).toBe(200);
  rejectionIn(await client.readResponse(), 400);
  expect(await client.next()).toBe("fin");
  client.close("fin");
});
