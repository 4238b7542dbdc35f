import { afterAll, describe, expect, test } from "bun:test";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Target } from "./dial.ts";
import { openReach } from "./dial-reach.ts";

const servers: Server[] = [];

async function listen(onConnection: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    onConnection(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

afterAll(() => {
  for (const server of servers) server.close();
});

function setUp(connectTimeoutMs: number) {
  const clock = { ms: 0, nowMs: () => clock.ms, monotonicMs: () => clock.ms };
  return { clock, reach: openReach({ clock, connectTimeoutMs }) };
}

const plain = (port: number): Target => ({
  origin: `http://127.0.0.1:${port}`,
  hostHeader: "a.test",
  tls: null,
});
const secure = (port: number): Target => ({
  origin: `https://127.0.0.1:${port}`,
  hostHeader: "a.test",
  tls: { serverName: "a.test" },
});

describe("an upstream whose headers are late", () => {
  test("is reachable when it takes connections, however long it thinks", async () => {
    const port = await listen(() => {});
    expect(await setUp(5_000).reach.isReachable(plain(port))).toBe(true);
  });

  test("may be finishing what it has when its port is closed: that is no black hole", async () => {
    const port = await listen(() => {});
    const server = servers.pop();
    await new Promise((resolve) => server?.close(resolve));
    expect(await setUp(5_000).reach.isReachable(plain(port))).toBe(true);
  });

  test("is not when its TLS handshake gets no answer", async () => {
    const closed = Promise.withResolvers<void>();
    const port = await listen((socket) => {
      socket.on("close", () => closed.resolve());
      socket.resume();
    });
    expect(await setUp(30).reach.isReachable(secure(port))).toBe(false);
    // The probe must not leave its connection behind.
    await closed.promise;
  });

  test("is when it answers the handshake with a reset: what is wrong there, fetch will say", async () => {
    const port = await listen((socket) => socket.resetAndDestroy());
    expect(await setUp(5_000).reach.isReachable(secure(port))).toBe(true);
  });

  test("is probed once for many calls, and again when the result is old", async () => {
    let connections = 0;
    const marked = Promise.withResolvers<void>();
    const port = await listen((socket) => {
      connections++;
      socket.once("data", () => marked.resolve());
    });
    const { clock, reach } = setUp(5_000);
    await Promise.all(Array.from({ length: 20 }, () => reach.isReachable(plain(port))));
    await reach.isReachable(plain(port));
    clock.ms += 1_000;
    await reach.isReachable(plain(port));
    // Connections are accepted in order: when the server hears this one, it has heard all before it.
    const mark = connect(port, "127.0.0.1").on("error", () => {});
    mark.write("mark");
    await marked.promise;
    mark.destroy();
    expect(connections).toBe(2 + 1);
  });
});
