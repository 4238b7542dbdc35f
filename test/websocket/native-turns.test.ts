/** Turns that reach an account over an upstream WebSocket: what the client sees, and what the account does. */

import { afterEach, describe, expect, test } from "bun:test";
import { connect as connectTo } from "node:net";
import type { Simulator } from "../../simulator/simulator.ts";
import { wholePart } from "../../src/base/parts.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { isObject } from "../../src/json/parse.ts";
import { buildFrame, TEXT } from "../../src/net/websocket/frames.ts";
import { eventually } from "../support/eventually.ts";
import {
  type AccountSetup,
  type PooledGateway,
  type PoolSetup,
  PUBLIC_MODEL,
  poolFile,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient, type ServerEvent, type SocketClient } from "../support/turn-client.ts";

let gateway: PooledGateway;
const clients: SocketClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await gateway.stop();
});

const NATIVE: AccountSetup = { websocket: true };

async function start(
  accounts: readonly AccountSetup[],
  more: Omit<PoolSetup, "accounts"> = {},
): Promise<PooledGateway> {
  gateway = await startPooledGateway({ accounts, ...more });
  return gateway;
}

async function connect(headers: Record<string, string> = {}): Promise<SocketClient> {
  const client = await openSocketClient(gateway.url, { headers });
  clients.push(client);
  return client;
}

const upstream = (index = 0): Simulator => {
  const found = gateway.upstreams[index];
  if (found === undefined) throw new Error(`there is no upstream ${index}`);
  return found;
};

/** The contents of the frames or bodies that an upstream received. */
function bodies(index = 0): Record<string, unknown>[] {
  const { ledger } = upstream(index);
  return ledger.entries().map(({ id }) => JSON.parse(Buffer.from(ledger.findBody(id) ?? []).toString()));
}

/** The socket of each response, in order; null for HTTP. */
const ways = (index = 0) =>
  upstream(index)
    .ledger.entries()
    .map(({ socket }) => socket);
const listTypes = (events: readonly ServerEvent[]) => events.map(({ type }) => type);
const hello = { model: PUBLIC_MODEL, input: "Hello", store: false };
const usage = (event: ServerEvent) =>
  (event.response as { usage: { input_tokens: number; output_tokens: number } }).usage;

/** Without the parts that are new each time. */
function alike(events: readonly ServerEvent[]): unknown[] {
  const text = JSON.stringify(events)
    .replace(/"(\w+_)[0-9a-f-]{16,}"/g, '"$1…"')
    .replace(/"(created_at|completed_at)":\d+/g, '"$1":0');
  return JSON.parse(text);
}

/** Sends, and does not read. */
async function openDeafClient(): Promise<{ create(fields: object): void; close(): void }> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connectTo(Number(port), hostname);
  socket.on("error", () => {});
  socket.write(
    `GET /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TEST_KEY}\r\nconnection: Upgrade\r\n` +
      "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  );
  await new Promise((resolve) => socket.once("data", resolve));
  socket.pause();
  return {
    create(fields) {
      const message = Buffer.from(JSON.stringify({ type: "response.create", ...fields }));
      socket.write(buildFrame(TEXT, wholePart(message), Uint8Array.of(1, 2, 3, 4)));
    },
    close: () => socket.destroy(),
  };
}

describe("the events that the client sees", () => {
  test("are the same over a native socket and over the HTTP bridge, turn by turn", async () => {
    await start([{ ...NATIVE, models: { native: "sim-tools", other: "sim-reason" } }]);
    const overSocket: ServerEvent[][] = [];
    const overHttp: ServerEvent[][] = [];
    const tools = [{ type: "function", name: "look", parameters: { type: "object", properties: {} } }];
    for (const [isNative, into] of [
      [true, overSocket],
      [false, overHttp],
    ] as const) {
      if (!isNative) {
        upstream().force("upgrade@426");
        upstream().closeSockets(1001);
        await eventually(() => upstream().ledger.sockets().open, { equals: 0 });
      }
      const client = await connect();
      const first = await client.turn({ model: "native", input: "Look", tools, store: false });
      const call = first.events.find(({ type }) => type === "response.output_item.done")?.item as {
        call_id: string;
      };
      const second = await client.turn({
        model: "native",
        input: [{ type: "function_call_output", call_id: call.call_id, output: "seen" }],
        tools,
        store: false,
        previous_response_id: first.responseId,
      });
      const third = await client.turn({ model: "other", input: "Think", store: false });
      const fourth = await client.turn({ model: "gone", input: "x" });
      into.push(first.events, second.events, third.events, fourth.events);
      client.close();
    }
    expect(ways()).toEqual([1, 1, 1, null, null, null]);
    for (const [turn, events] of overSocket.entries()) {
      expect(listTypes(events)).toEqual(listTypes(overHttp[turn] ?? []));
    }
    const shown = overSocket.flat().map((event) => (event.response as { model?: string })?.model);
    expect(new Set(shown.filter((model) => model !== undefined))).toEqual(new Set(["native", "other"]));
  });

  test("are byte-identical except for ids and times", async () => {
    await start([NATIVE, { ...NATIVE, websocket: false, priority: 2 }]);
    const client = await connect();
    const native = await client.turn(hello);
    await gateway.apply(poolFile({ accounts: [{ websocket: false }] }, [upstream().url]));
    await eventually(async () => {
      await client.turn({ ...hello });
      return ways().at(-1) === null;
    });
    const bridged = await client.turn(hello);
    expect(alike(native.events)).toEqual(alike(bridged.events));
    expect(usage(native.last)).toEqual(usage(bridged.last));
  });

  test("contain one terminal event, even if the upstream sends more after it", async () => {
    await start([{ ...NATIVE, models: { [PUBLIC_MODEL]: "fault/late-events@200ms" } }]);
    const client = await connect();
    const first = await client.turn(hello);
    // On the same upstream socket, which sends more events before it handles this turn.
    const second = await client.turn({ ...hello, previous_response_id: first.responseId });
    expect(ways()).toEqual([1, 1]);
    for (const { events } of [first, second]) {
      expect(listTypes(events).filter((type) => type === "response.completed")).toHaveLength(1);
      expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
    }
    expect(second.responseId).not.toBe("resp_late");
    expect(JSON.stringify(client.events)).not.toContain("CANARY");
    await eventually(() => upstream().ledger.sockets().open, { equals: 0 });
  });
});

describe("a conversation", () => {
  test("continues with only its new input on the upstream socket that served it last", async () => {
    await start([NATIVE]);
    const client = await connect();
    const first = await client.turn({ ...hello, input: "One" });
    const second = await client.turn({ ...hello, input: "Two", previous_response_id: first.responseId });
    const third = await client.turn({ ...hello, input: "Three", previous_response_id: second.responseId });
    expect(third.last.type).toBe("response.completed");
    expect(upstream().ledger.sockets().opened).toBe(1);
    const [, two, three] = bodies();
    expect(two).toMatchObject({ type: "response.create", previous_response_id: first.responseId });
    expect(JSON.stringify(two?.input)).toContain("Two");
    expect(JSON.stringify(two?.input)).not.toContain("One");
    expect(three).toMatchObject({ previous_response_id: second.responseId });
    expect(JSON.stringify(three?.input)).not.toContain("Two");
  });

  test("is sent in full to a socket that has forgotten it, without an error for the client", async () => {
    await start([NATIVE]);
    const client = await connect();
    const first = await client.turn({ ...hello, input: "One" });
    upstream().force("forgets", 1);
    const second = await client.turn({ ...hello, input: "Two", previous_response_id: first.responseId });
    expect(second.last.type).toBe("response.completed");
    const [, tail, whole] = bodies();
    expect(tail).toMatchObject({ previous_response_id: first.responseId });
    expect(whole?.previous_response_id).toBeUndefined();
    expect(JSON.stringify(whole?.input)).toContain("One");
    expect((await gateway.usageRows()).length).toBe(2);
  });

  test("on each lane has its own socket and never the input of another lane", async () => {
    await start([NATIVE]);
    const client = await connect();
    client.create({ ...hello, input: "Apples", stream_id: "a" });
    client.create({ ...hello, input: "Bears", stream_id: "b" });
    const done = [
      ...(await client.until("response.completed")),
      ...(await client.until("response.completed")),
    ];
    const ended = done.filter(({ type }) => type === "response.completed");
    expect(new Set(ended.map((event) => event.stream_id))).toEqual(new Set(["a", "b"]));
    const response = ended.find((event) => event.stream_id === "b")?.response;
    const previous = String(isObject(response) ? response.id : "");
    await client.turn({ ...hello, input: "More", stream_id: "b", previous_response_id: previous });
    const last = bodies().at(-1);
    expect(last).toMatchObject({ previous_response_id: previous });
    expect(JSON.stringify(last)).not.toContain("Apples");
    expect(upstream().ledger.sockets().opened).toBe(2);
  });

  test("moves to another account if its own fails, over HTTP if that one has no WebSocket", async () => {
    await start([NATIVE, { priority: 2 }]);
    const client = await connect();
    const first = await client.turn({ ...hello, input: "One" });
    upstream(0).force("503");
    const second = await client.turn({ ...hello, input: "Two", previous_response_id: first.responseId });
    expect(second.last.type).toBe("response.completed");
    expect([ways(0), ways(1)]).toEqual([[1, 1], [null]]);
    expect(JSON.stringify(bodies(1)[0]?.input)).toContain("One");
    expect(bodies(1)[0]?.previous_response_id).toBeUndefined();
    const third = await client.turn({ ...hello, input: "Three", previous_response_id: second.responseId });
    expect(third.last.type).toBe("response.completed");
  });
});

describe("an upstream socket", () => {
  test("that closed between two turns is replaced, and the conversation is sent in full", async () => {
    await start([NATIVE]);
    const client = await connect();
    const first = await client.turn({ ...hello, input: "One" });
    upstream().closeSockets(null);
    await eventually(() => upstream().ledger.sockets().open, { equals: 0 });
    const second = await client.turn({ ...hello, input: "Two", previous_response_id: first.responseId });
    expect(second.last.type).toBe("response.completed");
    expect(ways()).toEqual([1, 2]);
    expect(JSON.stringify(bodies()[1]?.input)).toContain("One");
  });

  test("that closes in the middle ends the turn with one failure, and the client connection stays", async () => {
    await start([{ ...NATIVE, models: { [PUBLIC_MODEL]: "sim-fast", cut: "fault/rst@chunk8" } }]);
    const client = await connect();
    const { events, last } = await client.turn({ model: "cut", input: "x", store: false });
    expect(last.type).toBe("response.failed");
    expect(
      listTypes(events).filter((type) => type.startsWith("response.output_text.delta")).length,
    ).toBeGreaterThan(0);
    expect((await client.turn(hello)).last.type).toBe("response.completed");
    const rows = await gateway.usageRows();
    expect(rows.map((row) => row.outcome)).toEqual(["upstream_cut", "completed"]);
  });

  test("that closes before the first content has its turn served by the next account", async () => {
    await start([
      { ...NATIVE, models: { [PUBLIC_MODEL]: "fault/rst@chunk1" } },
      { ...NATIVE, priority: 2 },
    ]);
    const client = await connect();
    const { events, last } = await client.turn(hello);
    expect(last.type).toBe("response.completed");
    expect(listTypes(events).filter((type) => type === "response.created")).toHaveLength(1);
    expect([ways(0), ways(1)]).toEqual([[1], [1]]);
  });

  test("that closes with an error instead of a response counts as an attempt", async () => {
    await start([NATIVE, { ...NATIVE, priority: 2 }]);
    const client = await connect();
    await client.turn(hello);
    upstream(0).force("crash", 1);
    expect((await client.turn(hello)).last.type).toBe("response.completed");
    expect([ways(0), ways(1)]).toEqual([[1, 1], [1]]);
    expect((await gateway.usageRows()).map(({ attempts }) => attempts)).toEqual([1, 2]);
  });

  test("is rotated between turns before its upstream's limit, invisibly to the client", async () => {
    const upstreamSockets = { ...limits.upstreamSockets, ageMs: 0 };
    await start([NATIVE], { limits: { upstreamSockets } });
    const client = await connect();
    let previous: string | undefined;
    for (const input of ["One", "Two", "Three"]) {
      const turn = await client.turn({ ...hello, input, previous_response_id: previous });
      expect(turn.last.type).toBe("response.completed");
      previous = turn.responseId;
    }
    expect(ways()).toEqual([1, 2, 3]);
    expect(JSON.stringify(bodies()[2]?.input)).toContain("One");
  });

  test("whose upstream reports its connection limit is replaced within the turn", async () => {
    await start([NATIVE]);
    const client = await connect();
    const first = await client.turn({ ...hello, input: "One" });
    upstream().force("connection-limit", 1);
    const second = await client.turn({ ...hello, input: "Two", previous_response_id: first.responseId });
    expect(second.last.type).toBe("response.completed");
    expect(ways()).toEqual([1, 1, 2]);
    expect(JSON.stringify(bodies()[2]?.input)).toContain("One");
  });

  test("is closed when the account's credential changes, and the next turn uses the new one", async () => {
    await start([NATIVE]);
    const client = await connect();
    await client.turn(hello);
    const [url = ""] = gateway.upstreams.map((one) => one.url);
    await gateway.apply(poolFile({ accounts: [{ ...NATIVE, credential: "rotated-credential" }] }, [url]));
    await eventually(() => upstream().ledger.sockets().open, { equals: 0 });
    expect((await client.turn(hello)).last.type).toBe("response.completed");
    expect(upstream().ledger.last()?.headers.authorization).toBe("Bearer rotated-credential");
  });

  test("is closed when its client disconnects in the middle", async () => {
    await start([{ ...NATIVE, models: { [PUBLIC_MODEL]: "fault/stall@chunk6" } }]);
    const client = await connect();
    client.create(hello);
    await client.until("response.output_text.delta");
    client.close();
    await eventually(() => upstream().ledger.last()?.abortedByClient);
    await eventually(() => upstream().ledger.sockets().open, { equals: 0 });
    await eventually(async () => (await gateway.usageRows()).at(0)?.outcome, { equals: "client_gone" });
  });

  test("is reused by other clients after its client closed between turns", async () => {
    await start([NATIVE]);
    const client = await connect();
    await client.turn(hello);
    client.close();
    // Not at once: for a moment after a response, its socket may still receive late messages. The turns in between open
    // further sockets, and the most recently used one is reused first.
    await eventually(async () => {
      const next = await connect();
      await next.turn(hello);
      next.close();
      return ways().length > upstream().ledger.sockets().opened;
    });
    expect(ways()).not.toContain(null);
  });

  test("applies back-pressure while the client does not read", async () => {
    await start([{ ...NATIVE, models: { [PUBLIC_MODEL]: "sim-fast@events=4000,bytes=60000000" } }]);
    const deaf = await openDeafClient();
    deaf.create(hello);
    let before = -1;
    await eventually(() => {
      const sent = upstream().ledger.last()?.eventsSent ?? 0;
      const isStill = sent > 0 && sent === before;
      before = sent;
      return isStill;
    });
    expect(before).toBeLessThan(4_000);
    deaf.close();
    await eventually(() => upstream().ledger.last()?.abortedByClient);
  });
});

describe("an upstream that rejects", () => {
  for (const status of [404, 405, 426]) {
    test(`the upgrade with ${status} is called over HTTP from then on, and this is logged`, async () => {
      await start([NATIVE]);
      upstream().force(`upgrade@${status}`, 1);
      const client = await connect();
      const first = await client.turn({ ...hello, input: "One" });
      const second = await client.turn({ ...hello, input: "Two", previous_response_id: first.responseId });
      expect([first.last.type, second.last.type]).toEqual(["response.completed", "response.completed"]);
      expect(ways()).toEqual([null, null]);
      expect(gateway.log.filter((line) => line.includes("websocket_unsupported"))).toHaveLength(1);
    });
  }

  test("the credential at the handshake is parked like over HTTP", async () => {
    await start([NATIVE, { ...NATIVE, priority: 2 }]);
    upstream(0).force("upgrade@401");
    const client = await connect();
    for (let turn = 0; turn < 2; turn++)
      expect((await client.turn(hello)).last.type).toBe("response.completed");
    expect([ways(0), ways(1)]).toEqual([[], [1, 1]]);
    expect(gateway.log.filter((line) => line.includes('"class":"credential"'))).toHaveLength(1);
  });

  test("a turn with 429 has its `retry-after` forwarded to the client", async () => {
    await start([{ ...NATIVE, models: { [PUBLIC_MODEL]: "fault/429@retry=7" } }]);
    const client = await connect();
    const { last } = await client.turn(hello);
    expect(last).toMatchObject({ type: "error", status: 429, headers: { "retry-after": "7" } });
    expect((last.error as { code: string }).code).toBe("rate_limit_exceeded");
  });

  test("a request as invalid ends the turn, and the socket stays in use", async () => {
    await start([
      { ...NATIVE, models: { [PUBLIC_MODEL]: "sim-fast", bad: "fault/400" } },
      { ...NATIVE, priority: 2 },
    ]);
    const client = await connect();
    expect((await client.turn({ ...hello, model: "bad" })).last).toMatchObject({
      type: "error",
      status: 400,
    });
    expect((await client.turn(hello)).last.type).toBe("response.completed");
    expect([ways(0), ways(1)]).toEqual([[1, 1], []]);
  });

  test("in a stream that began fails over like over HTTP", async () => {
    const models = { [PUBLIC_MODEL]: "fault/capacity-in-stream" };
    await start([
      { ...NATIVE, models },
      { ...NATIVE, priority: 2 },
    ]);
    const client = await connect();
    const { events, last } = await client.turn(hello);
    expect(last.type).toBe("response.completed");
    expect(listTypes(events).filter((type) => type === "response.created")).toHaveLength(1);
  });
});

describe("secrets of the account", () => {
  const CANARY = /CANARY|credential-0|org-simulator/;

  for (const [what, fault] of [
    ["error frames", "canary@400"],
    ["server error frames", "canary@500"],
    ["rate limit error frames", "canary@429"],
    ["events about its limits", "private-events"],
    ["headers of events", "event-headers"],
  ] as const) {
    test(`in ${what} do not reach the client`, async () => {
      await start([{ ...NATIVE, models: { [PUBLIC_MODEL]: `fault/${fault}` } }]);
      const client = await connect({ originator: "codex_exec" });
      await client.turn(hello);
      expect(ways()).toEqual([1]);
      expect(JSON.stringify(client.events)).not.toMatch(CANARY);
    });
  }

  for (const fault of ["upgrade-canary@401", "upgrade-canary@429", "upgrade-canary@500", "canary-ok"]) {
    test(`in the handshake (${fault}) do not reach the client`, async () => {
      await start([NATIVE]);
      upstream().force(fault);
      const client = await connect();
      await client.turn(hello);
      expect(JSON.stringify(client.events)).not.toMatch(CANARY);
      const rows = await gateway.usageRows();
      expect(JSON.stringify(rows)).not.toMatch(/CANARY/);
    });
  }

  test("a turn carries only the allowed headers of the client", async () => {
    await start([NATIVE]);
    const client = await connect({
      "openai-beta": "responses_websockets=2026-02-06, some_beta=1",
      "x-codex-turn-metadata": "secret-of-the-client",
      cookie: "secret-of-the-client",
    });
    await client.turn(hello);
    const { headers = {} } = upstream().ledger.last() ?? {};
    expect(headers["openai-beta"]).toBe("some_beta=1");
    expect(JSON.stringify(headers)).not.toContain("secret-of-the-client");
    expect(headers.authorization).toBe("Bearer credential-0");
  });
});
