/** Tests of a request that waits in the write batcher until the end of the turn. */

import { afterEach, expect, test } from "bun:test";
import type { Socket } from "bun";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import { ClientConnectionSocket, type ConnectionSlot, type ConnectionUser } from "./connection.ts";
import type { OutgoingRequest } from "./contract.ts";
import { ClientExchange } from "./exchange.ts";

const PLACE: ConnectionSlot = { hostname: "up", port: 1, tls: null, idle: [] };
const RESPONSE = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
const deadlines = openDeadlines(1_000, systemClock);

afterEach(() => writeBatcher.flush());

/** Sockets that accept these numbers of bytes per write, the last number for all further writes. */
function begin(takes: number[]) {
  const written: string[] = [];
  const received: string[] = [];
  const connections: ClientConnectionSocket[] = [];
  /** How many writes there were before each call. */
  const begun: number[] = [];
  function connect(): ClientConnectionSocket {
    const socket = {
      write(bytes: Uint8Array, from: number, length: number): number {
        const taken = Math.min(length, takes.length > 1 ? (takes.shift() ?? 0) : (takes[0] ?? 0));
        if (taken > 0) written.push(Buffer.from(bytes).toString("latin1", from, from + taken));
        return taken;
      },
      terminate() {},
      close() {},
      pause() {},
      resume() {},
    } as unknown as Socket<ClientConnectionSocket>;
    const noCaller = { onOpen() {}, onData() {}, onDrain() {}, onClose() {} };
    const connection = new ClientConnectionSocket(PLACE, noCaller, deadlines, 1_000);
    connection.onConnect(socket);
    connections.push(connection);
    return connection;
  }
  const context = {
    headBytesMax: 100_000,
    monotonicMs: () => 0,
    connections: {
      resolveRoute: () => ({ slot: PLACE, hostLine: "host: up\r\n" }),
      takeIdle: () => connect(),
      open: (_place: ConnectionSlot, user: ConnectionUser) => {
        const connection = connect();
        connection.user = user;
        received.push("again");
        return connection;
      },
      returnIdle: () => void received.push("kept"),
      close() {},
    },
  };
  const sink = {
    head: () => void received.push("head"),
    data() {},
    end: () => void received.push("end"),
    fail: ({ kind }: { kind: string }) => void received.push(kind),
  };
  const request: OutgoingRequest = {
    method: "POST",
    target: { origin: "http://up:1", hostHeader: null, tls: null },
    path: "/",
    headers: "",
    body: null,
    beforeWrite: () => void begun.push(written.length),
  };
  // Even if single-write batches of other tests have disabled batching.
  while (writeBatcher.reserve(1) < 0);
  const exchange = new ClientExchange(context, request, sink);
  exchange.start();
  return { exchange, written, received, connections, begun };
}

const respond = (connection: ClientConnectionSocket | undefined) => connection?.onData(Buffer.from(RESPONSE));

test("a batched request is sent at the end of the turn, and its connection is reusable", async () => {
  const { exchange, written, received, connections, begun } = begin([10_000]);
  expect([written, exchange.hasBegun, begun]).toEqual([[], false, []]);
  await new Promise((resolve) => setImmediate(resolve));
  expect([written, exchange.hasBegun, begun]).toEqual([[expect.stringContaining("host: up")], true, [0]]);
  respond(connections[0]);
  expect(received).toEqual(["head", "kept", "end"]);
});

test("a batched request is sent in order if the socket accepts few bytes at a time", () => {
  const { written, received, connections } = begin([4, 0, 3, 10_000]);
  writeBatcher.flush();
  for (let i = 0; i < 3; i++) connections[0]?.onDrain();
  expect(written.map((text) => text.length).slice(0, 2)).toEqual([4, 3]);
  expect(written.join("")).toStartWith("POST / HTTP/1.1\r\n");
  expect(written.join("")).toEndWith("\r\n\r\n");
  respond(connections[0]);
  expect(received).toEqual(["head", "kept", "end"]);
});

test("a head in many small reads is parsed once", () => {
  const { received, connections } = begin([10_000]);
  writeBatcher.flush();
  const before = process.cpuUsage();
  connections[0]?.onData(Buffer.from("HTTP/1.1 200 OK\r\n"));
  for (let line = 0; line < 15_000; line++) connections[0]?.onData(Buffer.from("a:\r\n"));
  expect(received).toEqual([]);
  connections[0]?.onData(Buffer.from("content-length: 0\r\n\r\n"));
  const { user, system } = process.cpuUsage(before);
  expect(received).toEqual(["head", "kept", "end"]);
  expect((user + system) / 1_000).toBeLessThan(500);
});

test("a batched request is not sent after an abort", () => {
  const { exchange, written, begun } = begin([10_000]);
  exchange.abort();
  writeBatcher.flush();
  expect([written, exchange.hasBegun, begun]).toEqual([[], false, []]);
});

test("a response before the request was sent ends the exchange and its connection", () => {
  const { written, received, connections } = begin([10_000]);
  respond(connections[0]);
  writeBatcher.flush();
  expect([written, received]).toEqual([[], ["head", "end"]]);
});

test("a batched request is sent once on another connection if its own closed before", () => {
  const { exchange, written, received, connections, begun } = begin([10_000]);
  connections[0]?.onEnd(undefined);
  exchange.onOpen();
  writeBatcher.flush();
  expect([written.length, received, begun]).toEqual([1, ["again"], [0]]);
  respond(connections[1]);
  expect(received).toEqual(["again", "head", "kept", "end"]);
});

test("a batched request is sent on another connection if its own turns out to be closed", async () => {
  const { exchange, written, received } = begin([-1, 10_000]);
  writeBatcher.flush();
  await Promise.resolve();
  exchange.onOpen();
  writeBatcher.flush();
  expect([written.length, received]).toEqual([1, ["again"]]);
});
