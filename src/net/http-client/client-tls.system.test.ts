import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createTcpServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type TLSSocket } from "node:tls";
import { socketAccount } from "../../accounts/account.test-support.ts";
import { openSocketClient, UpstreamLane } from "../../accounts/websocket/client.ts";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { wholePart } from "../../base/parts.ts";
import { computeAcceptKey } from "../websocket/accept-key.ts";
import { buildFrame, TEXT } from "../websocket/frames.ts";
import type { DialTarget } from "./dial.ts";
import { openClient, ResponseRecorder } from "./http-client.test-support.ts";

const folder = mkdtempSync(join(tmpdir(), "http-tls-"));
const read = (name: string) => readFileSync(join(folder, name), "utf8");
const EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

function openssl(...args: string[]): void {
  const run = Bun.spawnSync(["openssl", ...args], { cwd: folder, stderr: "pipe" });
  if (!run.success) throw new Error(run.stderr.toString());
}

/** A certificate of the test authority for these names. */
function certify(name: string, names: string, days = "2"): { key: string; cert: string } {
  openssl("req", ...EC, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
  writeFileSync(join(folder, `${name}.ext`), `subjectAltName=${names}`);
  const authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
  openssl(
    ...["x509", "-req", "-in", `${name}.csr`, ...authority, "-days", days],
    ...["-extfile", `${name}.ext`, "-out", `${name}.pem`],
  );
  return { key: read(`${name}.key`), cert: read(`${name}.pem`) };
}

let ca = "";
let named: { key: string; cert: string };
let addressed: { key: string; cert: string };
let expired: { key: string; cert: string };
const open: { close(): void }[] = [];

beforeAll(() => {
  const usage = ["-addext", "basicConstraints=critical,CA:TRUE"];
  openssl(
    "req",
    "-x509",
    ...EC,
    "-keyout",
    "ca.key",
    "-out",
    "ca.pem",
    "-days",
    "2",
    "-subj",
    "/CN=ca",
    ...usage,
  );
  ca = read("ca.pem");
  named = certify("named", "DNS:a.test,DNS:*.wild.test");
  addressed = certify("addressed", "IP:127.0.0.1,IP:::1");
  expired = certify("expired", "DNS:a.test", "-1");
});
afterEach(() => {
  for (const part of open.splice(0)) part.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

async function listen(server: Server, host: string): Promise<number> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** An upstream with this certificate that records the received bytes and the requested server names. */
async function upstream(certificate: { key: string; cert: string }, host = "127.0.0.1") {
  const seen = { bytes: 0, connections: 0, alpn: "", names: [] as unknown[] };
  const server = createServer({ ...certificate, ALPNProtocols: ["h2", "http/1.1"] }, (socket: TLSSocket) => {
    seen.connections++;
    seen.alpn = String(socket.alpnProtocol);
    seen.names.push(socket.servername);
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      seen.bytes += bytes.length;
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    });
  });
  server.on("tlsClientError", () => {});
  return { seen, port: await listen(server, host) };
}

async function ask(port: number, serverName: string | null, options = {}, host = "127.0.0.1", times = 1) {
  const target: DialTarget = {
    origin: `https://${host}:${port}`,
    hostHeader: serverName,
    tls: serverName === null ? null : { serverName },
  };
  const http = openClient(options);
  open.push(http);
  let over = "";
  for (let i = 0; i < times; i++) {
    const notes = new ResponseRecorder();
    http.send(
      { target, method: "POST", path: "/", headers: "", body: wholePart(Buffer.from("secret")) },
      notes,
    );
    over = await notes.over.promise;
  }
  return over;
}

describe("an exchange over TLS", () => {
  test("with a matching name and a trusted CA uses HTTP/1.1 and keep-alive", async () => {
    const { port, seen } = await upstream(named);
    expect(await ask(port, "a.test", { ca }, "127.0.0.1", 3)).toBe("end");
    expect([seen.connections, seen.alpn, seen.names]).toEqual([1, "http/1.1", ["a.test"]]);
    expect(await ask(port, "b.wild.test", { ca })).toBe("end");
  });

  test("never uses a connection that was opened for another server name", async () => {
    const { port, seen } = await upstream(named);
    const http = openClient({ ca });
    open.push(http);
    const over: string[] = [];
    for (const serverName of ["a.test", "b.wild.test", "a.test", "wrong.test", null, "b.wild.test"]) {
      const notes = new ResponseRecorder();
      const tls = serverName === null ? null : { serverName };
      const target = { origin: `https://127.0.0.1:${port}`, hostHeader: "same.test", tls };
      http.send({ target, method: "GET", path: "/", headers: "", body: null }, notes);
      over.push(await notes.over.promise);
    }
    const refused = "tls: ERR_TLS_CERT_ALTNAME_INVALID";
    expect(over).toEqual(["end", "end", "end", refused, refused, "end"]);
    expect(seen.names.slice(0, 2)).toEqual(["a.test", "b.wild.test"]);
    expect(seen.names.filter((name) => name === "a.test" || name === "b.wild.test")).toHaveLength(2);
  });

  test("rejects an unknown CA and sends no data", async () => {
    const { port, seen } = await upstream(named);
    expect(await ask(port, "a.test")).toStartWith("tls: ");
    expect(seen.bytes).toBe(0);
  });

  test("rejects a certificate for another name and sends no data", async () => {
    const { port, seen } = await upstream(named);
    expect(await ask(port, "wrong.test", { ca })).toBe("tls: ERR_TLS_CERT_ALTNAME_INVALID");
    expect(await ask(port, "a.b.wild.test", { ca })).toBe("tls: ERR_TLS_CERT_ALTNAME_INVALID");
    expect(seen.bytes).toBe(0);
  });

  test("rejects an expired certificate", async () => {
    const { port, seen } = await upstream(expired);
    expect(await ask(port, "a.test", { ca })).toBe("tls: CERT_HAS_EXPIRED");
    expect(seen.bytes).toBe(0);
  });

  test("without a server name verifies the IP address", async () => {
    const right = await upstream(addressed);
    expect(await ask(right.port, null, { ca })).toBe("end");
    const wrong = await upstream(named);
    expect(await ask(wrong.port, null, { ca })).toBe("tls: ERR_TLS_CERT_ALTNAME_INVALID");
    expect(wrong.seen.bytes).toBe(0);
  });

  test("without a server name verifies an IPv6 address", async () => {
    const right = await upstream(addressed, "::1");
    expect(await ask(right.port, null, { ca }, "[::1]")).toBe("end");
  });

  test("fails as tls if the peer does not support TLS or closes", async () => {
    const plain = createTcpServer((socket) => socket.on("error", () => {}).end("HTTP/1.1 400 Bad\r\n\r\n"));
    const leaving = createTcpServer((socket) => socket.destroy());
    for (const server of [plain, leaving]) {
      const port = await listen(server, "127.0.0.1");
      expect(await ask(port, "a.test", { ca })).toStartWith("tls: ");
    }
  });

  test("trusts the CAs of NODE_EXTRA_CA_CERTS", async () => {
    const { port } = await upstream(named);
    const script = `
      const { ResponseRecorder, openClient } = await import(${JSON.stringify(join(import.meta.dir, "http-client.test-support.ts"))});
      const notes = new ResponseRecorder();
      const target = { origin: "https://127.0.0.1:${port}", hostHeader: null, tls: { serverName: "a.test" } };
      openClient().send({ target, method: "GET", path: "/", headers: "", body: null }, notes);
      console.log(await notes.over.promise);
      process.exit(0);`;
    const run = Bun.spawn([process.execPath, "-e", script], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, "ca.pem") },
      stderr: "inherit",
    });
    expect((await run.stdout.text()).trim()).toBe("end");
  });

  test("receives a large response across pauses", async () => {
    const body = Buffer.alloc(5_000_000, "0123456789");
    const server = createServer(named, (socket) => {
      socket.on("error", () => {});
      socket.once("data", () => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
        socket.write(body);
      });
    });
    const port = await listen(server, "127.0.0.1");
    const http = openClient({ ca });
    open.push(http);
    const target = { origin: `https://127.0.0.1:${port}`, hostHeader: null, tls: { serverName: "a.test" } };
    const notes = new ResponseRecorder();
    const exchange = http.send({ target, method: "GET", path: "/", headers: "", body: null }, notes);
    notes.afterData = () => {
      exchange.pause();
      setTimeout(() => exchange.resume(), 1);
    };
    expect(await notes.over.promise).toBe("end");
    expect(Buffer.concat(notes.pieces).equals(body)).toBe(true);
  });
});

describe("a WebSocket over TLS", () => {
  const ACCOUNT = socketAccount({ baseUrl: "https://a.test", basePath: "", credential: "secret" });

  async function socketUpstream() {
    const seen = { head: "", name: "" };
    const server = createServer({ ...named, ALPNProtocols: ["h2", "http/1.1"] }, (socket: TLSSocket) => {
      seen.name = `${socket.servername} ${socket.alpnProtocol}`;
      socket.on("error", () => {});
      socket.once("data", (bytes) => {
        seen.head = bytes.toString("latin1");
        const key = /sec-websocket-key: (.*)\r/i.exec(seen.head)?.[1] ?? "";
        socket.write(
          `HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${computeAcceptKey(key)}\r\n\r\n`,
        );
        const completed = Buffer.from('{"type":"response.completed","response":{"id":"resp_1"}}');
        socket.once("data", () => socket.write(buildFrame(TEXT, wholePart(completed), null)));
      });
    });
    server.on("tlsClientError", () => {});
    return { seen, port: await listen(server, "127.0.0.1") };
  }

  async function turn(port: number, serverName: string): Promise<string> {
    const deadlines = openDeadlines(5, systemClock);
    const sockets = openSocketClient({
      deadlines,
      monotonicMs: systemClock.monotonicMs,
      connectTimeoutMs: 5_000,
      headBytesMax: 16_384,
      messageBytesMax: 65_536,
      errorBytesMax: 65_536,
      handshakeTimeoutMs: 5_000,
      ageMs: 60_000,
      idleMs: 60_000,
      pingMs: 60_000,
      freeMax: 1,
      sentBytesMax: 1024 * 1024,
      reuseDelayMs: 0,
      unsupportedMs: 60_000,
      onUnsupported() {},
      ca,
    });
    open.push(sockets, { close: deadlines.stop });
    const notes = new ResponseRecorder();
    sockets.send(
      {
        account: ACCOUNT,
        target: { origin: `https://127.0.0.1:${port}`, hostHeader: serverName, tls: { serverName } },
        path: "/responses",
        headers: "authorization: Bearer secret\r\n",
        upstreamLane: new UpstreamLane(),
        wholeBody: wholePart(Buffer.from('{"model":"m"}')),
        tail: null,
      },
      notes,
    );
    return notes.over.promise;
  }

  test("opens with a verified server name, on HTTP/1.1", async () => {
    const { port, seen } = await socketUpstream();
    expect(await turn(port, "a.test")).toBe("end");
    expect(seen.name).toBe("a.test http/1.1");
    expect(seen.head).toStartWith("GET /responses HTTP/1.1\r\nhost: a.test\r\n");
  });

  test("sends no upgrade request if the certificate has another name", async () => {
    const { port, seen } = await socketUpstream();
    expect(await turn(port, "b.test")).toStartWith("tls: ");
    expect(seen.head).toBe("");
  });
});
