/** The OpenAI SDK's `ResponsesWS` against a running gateway. */

import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { resolve } from "node:path";
import OpenAI from "openai";
import type { ResponsesClientEvent, ResponsesServerEvent } from "openai/resources/responses/responses";
import { ResponsesWS } from "openai/resources/responses/ws";
import { tapWire, type WireTap } from "../codex/wire-tap.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MODELS = { talker: "sim-fast", "tool-user": "sim-tools", "cut-short": "fault/incomplete" };

let gateway: RunningGateway;
let tap: WireTap;
const sockets: ResponsesWS[] = [];

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
  tap = await tapWire(gateway.url);
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  await tap.stop();
  await gateway.stop();
});

function open(options: ConstructorParameters<typeof ResponsesWS>[1] = null): ResponsesWS {
  const client = new OpenAI({ baseURL: `${tap.url}/v1`, apiKey: TEST_KEY });
  const socket = new ResponsesWS(client, options);
  sockets.push(socket);
  return socket;
}

type Completed = Extract<ResponsesServerEvent, { type: "response.completed" }>;

interface TurnEvents {
  events: ResponsesServerEvent[];
  response: Completed["response"];
}

/** Runs one turn, and rejects if the SDK reports a failure. */
function ask(
  socket: ResponsesWS,
  request: Omit<ResponsesClientEvent.ResponseCreate, "type">,
): Promise<TurnEvents> {
  const { promise, resolve: reported, reject } = Promise.withResolvers<TurnEvents>();
  const events: ResponsesServerEvent[] = [];
  const onEvent = (event: ResponsesServerEvent) => {
    events.push(event);
    if (event.type === "response.completed") reported({ events, response: event.response });
  };
  socket.on("event", onEvent);
  socket.on("error", reject);
  socket.send({ type: "response.create", ...request });
  return promise.finally(() => {
    socket.off("event", onEvent);
    socket.off("error", reject);
  });
}

test("the SDK streams a response with the public model name", async () => {
  const { events, response } = await ask(open(), { model: "talker", input: "What is the time?" });
  const text = events.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : []));
  expect(text.length).toBeGreaterThan(1);
  expect(text.join("")).toContain("What is the time?");
  expect(JSON.stringify(response.output)).toContain(JSON.stringify(text.join("")));
  expect(response).toMatchObject({ model: "talker", status: "completed" });
});

test("the SDK continues a response on its connection", async () => {
  const socket = open();
  const request = { model: "talker", store: false };
  const first = await ask(socket, { ...request, input: "My name is Ada." });
  await ask(socket, { ...request, previous_response_id: first.response.id, input: "And now?" });
  const entry = gateway.simulator.ledger.last();
  const body = Buffer.from(gateway.simulator.ledger.findBody(entry?.id ?? "") ?? []).toString();
  expect(body).toContain("My name is Ada.");
  expect(body).toContain("And now?");
});

test("the SDK gets an error event for an invalid request, and continues on the same connection", async () => {
  const socket = open();
  const request = { model: "talker", store: false, input: "Hello" };
  const failure = await ask(socket, { ...request, previous_response_id: "resp_unknown" }).catch(
    (thrown: unknown) => thrown,
  );
  expect(failure).toMatchObject({
    error: { type: "error", status: 400, error: { code: "previous_response_not_found" } },
  });
  const unknown = await ask(socket, { ...request, model: "no-such-model" }).catch(
    (thrown: unknown) => thrown,
  );
  expect(unknown).toMatchObject({ error: { status: 404, error: { code: "model_not_found" } } });
  expect((await ask(socket, request)).response.status).toBe("completed");
});

test("the SDK reconnects automatically when its gateway is replaced", async () => {
  const successor = await startTestGateway({ models: MODELS });
  const first = await startTestGateway({ models: MODELS });
  const wire = await tapWire(first.url);
  try {
    const client = new OpenAI({ baseURL: `${wire.url}/v1`, apiKey: TEST_KEY });
    const reconnected = Promise.withResolvers<number>();
    const socket = new ResponsesWS(client, {
      reconnect: { initialDelay: 1, onReconnecting: ({ closeCode }) => reconnected.resolve(closeCode) },
    });
    sockets.push(socket);
    await ask(socket, { model: "talker", input: "First" });
    wire.aim(successor.url);
    await first.stop();
    expect(await reconnected.promise).toBe(1012);
    expect((await ask(socket, { model: "talker", input: "Second" })).response.status).toBe("completed");
    expect(successor.simulator.ledger.totals().requests).toBe(1);
  } finally {
    await wire.stop();
    await successor.stop();
  }
});

test("the SDK works under Node with the `ws` package too", async () => {
  const script = resolve(import.meta.dir, "../clients/responses-ws.mjs");
  const child = Bun.spawn(["node", script], {
    env: { PATH: process.env.PATH ?? "", BASE_URL: `${gateway.url}/v1`, API_KEY: TEST_KEY, MODEL: "talker" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [printed, complaints] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect(complaints).toBe("");
  expect(printed.trim().split("\n")).toEqual([
    "completed",
    "completed",
    "previous_response_not_found",
    "completed",
  ]);
});
