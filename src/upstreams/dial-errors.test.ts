import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import { systemClock } from "../clock.ts";
import { DIRECT, openDialer, type Target } from "./dial.ts";
import { classifyFetchError, DialError } from "./dial-errors.ts";

const servers: Server[] = [];
const folder = mkdtempSync(join(tmpdir(), "dial-"));

/** A listener that does with each connection what the test says; its port. */
function listen(onConnection: (socket: Socket) => void): Promise<number> {
  return started(createServer(onConnection));
}

function started(server: Server): Promise<number> {
  servers.push(server);
  server.on("connection", (socket: Socket) => socket.on("error", () => {}));
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}

function openssl(...args: string[]): void {
  const run = Bun.spawnSync(["openssl", ...args], { cwd: folder, stderr: "pipe" });
  if (!run.success) throw new Error(run.stderr.toString());
}

/** A certificate for both test names, self-signed, so that it is its own authority. */
function createCertificate(name: string, days: number): { key: string; cert: string } {
  const key = `${name}.key`;
  const cert = `${name}.pem`;
  const request = `${name}.csr`;
  const san = `${name}.ext`;
  openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key);
  openssl("req", "-new", "-key", key, "-subj", `/CN=${name}`, "-out", request);
  Bun.spawnSync(["sh", "-c", `echo subjectAltName=DNS:a.test,DNS:b.test > ${san}`], { cwd: folder });
  openssl(
    "x509",
    "-req",
    "-in",
    request,
    "-signkey",
    key,
    "-days",
    String(days),
    "-extfile",
    san,
    "-out",
    cert,
  );
  return { key: readFileSync(join(folder, key), "utf8"), cert: readFileSync(join(folder, cert), "utf8") };
}

const ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

let good: { key: string; cert: string };
let expired: { key: string; cert: string };

beforeAll(() => {
  good = createCertificate("good", 2);
  expired = createCertificate("expired", -1);
});

afterAll(() => {
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true });
});

/** What fetch throws, or what its body throws once headers have come. */
async function failure(url: string, init: BunFetchRequestInit = {}): Promise<unknown> {
  try {
    const response = await fetch(url, { ...DIRECT, ...init });
    await response.text();
  } catch (err) {
    return err;
  }
  throw new Error("the call did not fail");
}

describe("a failed call is classified by what fetch throws", () => {
  test("a closed port is refused, on http and https alike", async () => {
    const server = createServer();
    const port = await started(server);
    await new Promise((resolve) => server.close(resolve));
    expect(classifyFetchError(await failure(`http://127.0.0.1:${port}`))).toBe("refused");
    expect(classifyFetchError(await failure(`https://127.0.0.1:${port}`))).toBe("refused");
  });

  test("a name that cannot exist is a DNS failure", async () => {
    // A label of 64 characters is refused before any packet is sent.
    expect(classifyFetchError(await failure(`http://${"a".repeat(64)}.invalid`))).toBe("dns");
  });

  test.each([
    ["a reset before headers", (socket: Socket) => socket.resetAndDestroy()],
    ["a close before headers", (socket: Socket) => socket.end()],
    ["a close inside the headers", (socket: Socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Le")],
    ["a body cut short", (socket: Socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")],
    [
      "a chunked body without its end",
      (socket: Socket) => socket.end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
    ],
  ])("%s is a reset", async (_, act) => {
    const port = await listen((socket) => socket.once("data", () => act(socket)));
    expect(classifyFetchError(await failure(`http://127.0.0.1:${port}`))).toBe("reset");
  });

  test("headers that do not come in time are a timeout", async () => {
    const port = await listen(() => {});
    const err = await failure(`http://127.0.0.1:${port}`, { signal: AbortSignal.timeout(20) });
    expect(classifyFetchError(err)).toBe("timeout");
  });

  test("a TLS handshake that does not end in time is a timeout", async () => {
    const port = await listen(() => {});
    const init = { signal: AbortSignal.timeout(20), tls: { serverName: "a.test" } };
    expect(classifyFetchError(await failure(`https://127.0.0.1:${port}`, init))).toBe("timeout");
  });

  test("a call that its owner gave up is aborted, before headers and after", async () => {
    const silent = new AbortController();
    const silentPort = await listen((socket) => socket.once("data", () => silent.abort()));
    const err = await failure(`http://127.0.0.1:${silentPort}`, { signal: silent.signal });
    expect(classifyFetchError(err)).toBe("aborted");

    const port = await listen((socket) =>
      socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")),
    );
    const controller = new AbortController();
    const response = await fetch(`http://127.0.0.1:${port}`, { ...DIRECT, signal: controller.signal });
    controller.abort();
    expect(classifyFetchError(await response.text().catch((reason: unknown) => reason))).toBe("aborted");
  });

  test("an answer that is not HTTP is unknown", async () => {
    const port = await listen((socket) =>
      socket.once("data", () => socket.end("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n")),
    );
    expect(classifyFetchError(await failure(`http://127.0.0.1:${port}`))).toBe("unknown");
  });

  test("a failed lookup of the dialer is a DNS failure, its other refusals are not", () => {
    expect(classifyFetchError(new DialError("dns_failed", ""))).toBe("dns");
    expect(classifyFetchError(new DialError("dns_timeout", ""))).toBe("dns");
    expect(classifyFetchError(new DialError("forbidden_address", ""))).toBe("unknown");
  });

  test.each([
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "tls"],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "tls"],
    ["EAI_AGAIN", "dns"],
    ["EHOSTUNREACH", "refused"],
    ["ETIMEDOUT", "timeout"],
    ["EPIPE", "reset"],
  ] as const)("%s is %s", (code, kind) => {
    expect(classifyFetchError(Object.assign(new TypeError(code), { code }))).toBe(kind);
  });

  test("what carries no known code is unknown", () => {
    const thrown = [null, undefined, "reset", 7, {}, new Error("x"), { code: 23 }, { code: "constructor" }];
    expect(new Set(thrown.map(classifyFetchError))).toEqual(new Set(["unknown"] as const));
  });
});

describe("TLS to a checked address", () => {
  /** An upstream with this certificate; it remembers which name each request's connection was opened for. */
  async function openUpstream(certificate: { key: string; cert: string }) {
    const requests: { name: unknown; host: string | undefined; connection: number }[] = [];
    let connections = 0;
    const server = createTlsServer(certificate, (socket) => {
      const connection = ++connections;
      const name = socket instanceof TLSSocket && "servername" in socket ? socket.servername : undefined;
      socket.on("error", () => {});
      socket.on("data", (bytes) => {
        requests.push({ name, host: /^host: (\S+)/im.exec(bytes.toString())?.[1], connection });
        socket.write(ANSWER);
      });
    });
    server.on("tlsClientError", () => {});
    return { port: await started(server), requests };
  }

  const dialer = openDialer({
    clock: systemClock,
    lookup: async () => ["127.0.0.1"],
    lookupTimeoutMs: 2_000,
    cacheMs: 30_000,
  });

  async function call(name: string, port: number, ca: string | undefined): Promise<string> {
    const target: Target = await dialer.resolve(`https://${name}:${port}`, true);
    const headers = { Host: target.hostHeader ?? "" };
    const tls = { ...target.tls, ...(ca === undefined ? {} : { ca }) };
    return (await fetch(target.origin, { ...DIRECT, headers, tls })).text();
  }

  const failureOf = (answer: Promise<string>) => answer.then(() => "answered", classifyFetchError);

  test("is verified against the name the operator wrote", async () => {
    const { port } = await openUpstream(good);
    expect(await call("a.test", port, good.cert)).toBe("ok");
    expect(await failureOf(call("c.test", port, good.cert))).toBe("tls");
  });

  test("fails on an expired certificate, on an unknown issuer and on a peer that speaks no TLS", async () => {
    const old = await openUpstream(expired);
    expect(await failureOf(call("a.test", old.port, expired.cert))).toBe("tls");
    const stranger = await openUpstream(good);
    expect(await failureOf(call("a.test", stranger.port, undefined))).toBe("tls");
    const plain = await listen((socket) => socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\n\r\n")));
    expect(await failureOf(call("a.test", plain, good.cert))).toBe("tls");
    expect([...old.requests, ...stranger.requests]).toEqual([]);
  });

  test("reuses connections, but never one that was opened for another name", async () => {
    const { port, requests } = await openUpstream(good);
    for (let round = 0; round < 10; round++) {
      await call("a.test", port, good.cert);
      await call("b.test", port, good.cert);
    }
    await Promise.all(
      Array.from({ length: 40 }, (_, index) => call(index % 2 === 0 ? "a.test" : "b.test", port, good.cert)),
    );
    expect(requests).toHaveLength(60);
    for (const { name, host } of requests) expect(host).toBe(`${name}:${port}`);
    expect(new Set(requests.slice(0, 20).map((request) => request.connection)).size).toBe(2);
  });
});
