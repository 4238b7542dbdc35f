import { afterEach, beforeEach, expect, test } from "bun:test";
import { eventually } from "../../test/support/eventually.ts";
import { type Simulator, startSimulator } from "../simulator.ts";

let simulator: Simulator;
const open: WebSocket[] = [];

beforeEach(() => {
  simulator = startSimulator({ seed: 7, credential: "sk-sim", record: "full" });
});
afterEach(async () => {
  for (const socket of open.splice(0)) socket.close();
  await simulator.stop();
});

type Event = Record<string, unknown> & { type: string };

interface Client {
  socket: WebSocket;
  send(message: object): void;
  /** Events up to the terminal event of a turn. */
  turn(message?: object): Promise<Event[]>;
  closed: Promise<number>;
}

const ENDS = new Set(["response.completed", "response.incomplete", "response.failed", "error"]);

async function connect(credential = "sk-sim"): Promise<Client> {
  const socket = new WebSocket(`${simulator.url.replace("http", "ws")}/responses`, {
    headers: { authorization: `Bearer ${credential}` },
  });
  open.push(socket);
  const waiting: Event[] = [];
  let wake = () => {};
  socket.onmessage = ({ data }) => {
    waiting.push(JSON.parse(String(data)));
    wake();
  };
  const closed = new Promise<number>((resolve) => {
    socket.onclose = ({ code }) => resolve(code);
  });
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  const send = (message: object) => socket.send(JSON.stringify({ type: "response.create", ...message }));
  return {
    socket,
    send,
    closed,
    async turn(message) {
      if (message !== undefined) send(message);
      const events: Event[] = [];
      for (;;) {
        const next = waiting.shift();
        if (next === undefined) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        events.push(next);
        if (ENDS.has(next.type)) return events;
      }
    },
  };
}

const readResponse = (events: Event[]) =>
  events.at(-1)?.response as { id: string; output: unknown[]; usage: { output_tokens: number } };
const readError = (events: Event[]) => events.at(-1)?.error as { code: string; param: string };

test("a turn sends the events of an HTTP stream, one per message", async () => {
  const client = await connect();
  const body = { model: "sim-fast", input: "Why is the sky blue?", store: false };
  const events = await client.turn(body);
  const response = await fetch(`${simulator.url}/responses`, {
    method: "POST",
    headers: { authorization: "Bearer sk-sim" },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const overHttp = [...(await response.text()).matchAll(/^event: (.*)$/gm)].map(([, type]) => type);
  expect(events.map(({ type }) => type)).toEqual(overHttp as string[]);
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
});

test("the ledger records each turn with its socket and its frame", async () => {
  const client = await connect();
  const events = await client.turn({ model: "sim-fast", input: "hello", store: false });
  await client.turn({ model: "sim-fast", input: "again", store: false });
  await connect();
  await eventually(() => simulator.ledger.totals().finished, { equals: 2 });
  expect(simulator.ledger.sockets()).toEqual({ opened: 2, open: 2 });
  const [first] = simulator.ledger.entries();
  expect(first).toMatchObject({ socket: 1, model: "sim-fast", stream: true, eventsSent: events.length });
  expect(first?.outputTokens).toBe(readResponse(events).usage.output_tokens);
  expect(JSON.parse(Buffer.from(simulator.ledger.findBody(first?.id ?? "") ?? []).toString()).input).toBe(
    "hello",
  );
  client.socket.close();
  await eventually(() => simulator.ledger.sockets().open, { equals: 1 });
});

test("a turn continues the previous unstored response on the same connection only", async () => {
  const client = await connect();
  const { id } = readResponse(await client.turn({ model: "sim-fast", input: "one", store: false }));
  const next = await client.turn({ model: "sim-fast", input: "two", store: false, previous_response_id: id });
  expect(readResponse(next)).toMatchObject({ previous_response_id: id });
  const other = await connect();
  const elsewhere = await other.turn({ model: "sim-fast", input: "two", previous_response_id: id });
  expect(elsewhere).toHaveLength(1);
  expect(elsewhere[0]).toMatchObject({ type: "error", status: 400 });
  expect(readError(elsewhere)).toMatchObject({
    code: "previous_response_not_found",
    param: "previous_response_id",
  });
  // The simulator remembers only the last response of a lane.
  expect(readError(await client.turn({ model: "sim-fast", input: "x", previous_response_id: id })).code).toBe(
    "previous_response_not_found",
  );
});

test("a continuation that failed cannot be retried", async () => {
  const client = await connect();
  const { id } = readResponse(await client.turn({ model: "sim-fast", input: "one", store: false }));
  const orphan = [{ type: "function_call_output", call_id: "call_nobody", output: "?" }];
  const failed = await client.turn({ model: "sim-fast", input: orphan, previous_response_id: id });
  expect(failed[0]).toMatchObject({ type: "error", status: 400 });
  expect(readError(await client.turn({ model: "sim-fast", input: "x", previous_response_id: id })).code).toBe(
    "previous_response_not_found",
  );
});

test("a warm-up has no output, is free, and can be continued", async () => {
  const client = await connect();
  const events = await client.turn({ model: "sim-fast", input: [], generate: false, store: false });
  expect(events.map(({ type }) => type)).toEqual(["response.created", "response.completed"]);
  const { id, output } = readResponse(events);
  expect(output).toEqual([]);
  const next = await client.turn({ model: "sim-fast", input: "hi", store: false, previous_response_id: id });
  expect(next.at(-1)?.type).toBe("response.completed");
});

test("turns of one lane run in sequence, lanes run in parallel, and events carry stream_id", async () => {
  const client = await connect();
  const slow = { model: "sim-fast@interval=5ms,events=10", input: "slow", store: false };
  client.send(slow);
  client.send({ ...slow, model: "sim-fast" });
  client.send({ ...slow, model: "sim-fast", stream_id: "b" });
  const turns = [await client.turn(), await client.turn(), await client.turn()].flat();
  const ends = turns.filter(({ type }) => type === "response.completed").map((event) => event.stream_id);
  expect(ends).toEqual(["b", undefined, undefined]);
  const plain = turns.filter((event) => event.stream_id === undefined).map(({ type }) => type);
  expect(plain.indexOf("response.completed")).toBeLessThan(plain.lastIndexOf("response.created"));
  expect(readError(await client.turn({ ...slow, stream_id: "a b" })).code).toBe("invalid_stream_id");
});

test("an invalid message gets an error frame, and the connection stays open", async () => {
  const client = await connect();
  client.socket.send("{");
  expect((await client.turn())[0]).toMatchObject({ type: "error", status: 400 });
  client.socket.send(JSON.stringify({ type: "response.unknown" }));
  expect((await client.turn())[0]).toMatchObject({ type: "error", status: 400 });
  expect((await client.turn({ input: "no model" }))[0]).toMatchObject({ type: "error", status: 400 });
  expect((await client.turn({ model: "sim-fast", input: "ok" })).at(-1)?.type).toBe("response.completed");
});

test("faults by model name send error frames with headers, cut streams or stall", async () => {
  const client = await connect();
  expect((await client.turn({ model: "fault/429@retry=2", input: "x" }))[0]).toMatchObject({
    status: 429,
    headers: { "retry-after": "2" },
  });
  expect((await client.turn({ model: "fault/error-in-stream", input: "x" })).map(({ type }) => type)).toEqual(
    [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "error",
    ],
  );
  expect(readError(await client.turn({ model: "fault/connection-limit", input: "x" })).code).toBe(
    "websocket_connection_limit_reached",
  );
  expect(await client.closed).toBe(1000);
  for (const [fault, code] of [
    ["crash", 1011],
    ["rst@chunk3", 1006],
    ["refuse", 1006],
    ["cut@chunk3", 1000],
  ] as const) {
    const cut = await connect();
    cut.send({ model: `fault/${fault}`, input: "x" });
    expect(await cut.closed).toBe(code);
  }
});

test("late events can follow a response, and the next turn waits for them", async () => {
  const client = await connect();
  const { id } = readResponse(await client.turn({ model: "fault/late-events@5ms", input: "x" }));
  const late = await client.turn();
  expect(late.map(({ type }) => type)).toEqual(["response.output_text.delta", "response.completed"]);
  expect(readResponse(late).id).not.toBe(id);
  expect((await client.turn({ model: "sim-fast", input: "y" }))[0]?.type).toBe("response.created");
});

test("fault/event-headers adds headers to life-cycle events and their responses", async () => {
  const client = await connect();
  const events = await client.turn({ model: "fault/event-headers", input: "x" });
  for (const event of events.filter(({ response }) => response !== undefined)) {
    expect(event).toMatchObject({ headers: {}, response: { headers: {} } });
  }
});

test("a fault can reject handshakes without affecting requests", async () => {
  simulator.force("upgrade@426");
  const headers = {
    authorization: "Bearer sk-sim",
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  };
  expect((await fetch(`${simulator.url}/responses`, { headers })).status).toBe(426);
  const body = JSON.stringify({ model: "sim-fast", input: "x" });
  const { authorization } = headers;
  const request = { method: "POST", headers: { authorization }, body };
  expect((await fetch(`${simulator.url}/responses`, request)).status).toBe(200);
  simulator.force("upgrade@429,retry=7", 1);
  const limited = await fetch(`${simulator.url}/responses`, { headers });
  expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "7"]);
  expect(
    (await fetch(`${simulator.url}/responses`, { headers: { ...headers, authorization: "Bearer no" } }))
      .status,
  ).toBe(401);
  await connect();
  simulator.closeSockets(1001);
});
