/** A client that does not read costs the gateway only a connection, for a limited time. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually, untilStill } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SpawnedGateway, spawnGateway } from "../support/spawned-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { openStreamClient, type StreamClient } from "../support/stream-client.ts";

const MB = 1_000_000;
const STREAM_BYTES = 50 * MB;
const EVENTS = 2_500;
const EVENT_BYTES = STREAM_BYTES / EVENTS;

const MODELS = {
  large: `sim-fast@events=${EVENTS},bytes=${STREAM_BYTES}`,
  medium: `sim-fast@events=1000,bytes=${20 * MB}`,
  short: "sim-fast@events=4",
} as const;

function open(url: string, model: keyof typeof MODELS, deaf: boolean): StreamClient {
  const messages = [{ role: "user", content: "Hello" }];
  return openStreamClient(url, "/v1/chat/completions", { model, messages, stream: true }, { deaf });
}

describe("clients that never read", () => {
  const CLIENTS = 20;
  const GROWN_BYTES_MAX = (CLIENTS * STREAM_BYTES) / 5;
  let simulator: Simulator;
  let gateway: SpawnedGateway;

  beforeAll(async () => {
    simulator = startSimulator({ seed: 1 });
    gateway = await spawnGateway(MODELS, simulator.url);
  });

  afterAll(async () => {
    await gateway.stop();
    await simulator.stop();
  });

  test("apply back-pressure to their upstreams instead of filling the gateway's memory", async () => {
    const warm = open(gateway.url, "medium", false);
    expect(await warm.ended).toBe("message");
    const beforeBytes = gateway.residentBytes();
    const clients = Array.from({ length: CLIENTS }, () => open(gateway.url, "large", true));
    await eventually(() => simulator.ledger.totals().inFlight, { equals: CLIENTS });
    await untilStill(() => eventsSent(simulator), 500);

    // Sent data is in the kernel's socket buffers on both sides of the gateway.
    const sentBytes = (eventsSent(simulator) * EVENT_BYTES) / CLIENTS;
    // What has passed through the gateway is garbage, which is returned to the system a little later.
    const computeGrowth = () => gateway.residentBytes() - beforeBytes;
    await eventually(() => computeGrowth() < GROWN_BYTES_MAX, 20_000).catch(() => {});
    const grownBytes = computeGrowth();
    console.log(
      `${CLIENTS} clients that never read ${STREAM_BYTES / MB} MB each: ${(sentBytes / MB).toFixed(1)} MB sent to each, gateway grew by ${(grownBytes / MB).toFixed(0)} MB`,
    );
    expect(sentBytes).toBeLessThan(STREAM_BYTES / 2);
    expect(grownBytes).toBeLessThan(GROWN_BYTES_MAX);

    // Clients that read are served meanwhile.
    const reader = open(gateway.url, "short", false);
    expect(await reader.ended).toBe("message");
    expect(reader.text()).toEndWith("data: [DONE]\n\n");

    for (const client of clients) client.disconnect("reset");
    await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
  });
});

describe("a client that stops reading", () => {
  const LIMITS = { writeStallMs: 1_000, keepAliveTickMs: 20 };
  let gateway: RunningGateway;
  let draining: RunningGateway;

  beforeAll(async () => {
    gateway = await startTestGateway({ models: MODELS, limits: LIMITS });
    draining = await startTestGateway({ models: MODELS, limits: LIMITS, onDisconnect: "drain" });
  });

  afterAll(async () => {
    await gateway.stop();
    await draining.stop();
  });

  test("is disconnected after a timeout, and its upstream call is aborted", async () => {
    const client = open(gateway.url, "large", true);
    const entry = await eventually(() => gateway.simulator.ledger.last());
    await eventually(() => stuckConnectionsAt(gateway.url), { equals: 1 });
    await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
    expect(entry).toMatchObject({ finished: false, abortedByClient: true });
    const row = asRecord(await eventually(async () => (await gateway.usageRows())[0]));
    expect(row).toMatchObject({ outcome: "client_gone", status: 200 });
    // The connection is closed although the client never read its data.
    await eventually(() => stuckConnectionsAt(gateway.url), { equals: 0 });
    client.resume();
    expect(await client.ended).not.toBe("message");
  });

  test("has its response drained in a group with on_disconnect drain", async () => {
    const client = open(draining.url, "medium", true);
    const entry = await eventually(() => draining.simulator.ledger.last());
    await eventually(() => draining.simulator.ledger.totals().inFlight, { equals: 0 });
    expect(entry.finished).toBe(true);
    const row = asRecord(await eventually(async () => (await draining.usageRows())[0]));
    expect(row).toMatchObject({ outcome: "client_gone", output_tokens: entry.outputTokens });
    client.disconnect("reset");
  });

  test("is served to the end if it only reads slowly", async () => {
    const client = open(gateway.url, "medium", false);
    let over = false;
    void client.ended.then(() => {
      over = true;
    });
    for (let pauses = 0; pauses < 8 && !over; pauses++) {
      client.pause();
      await Bun.sleep(100);
      client.resume();
      await Bun.sleep(5);
    }
    expect(await client.ended).toBe("message");
    expect(client.text()).toEndWith("data: [DONE]\n\n");
  });
});

/** Connections that the server keeps open although their clients do not read waiting data. */
function stuckConnectionsAt(url: string): number {
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, "0");
  const ESTABLISHED = "01";
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(`:${port}`) && state === ESTABLISHED)
    .filter(([, , , , queues]) => !queues?.startsWith("00000000:")).length;
}

function eventsSent(simulator: Simulator): number {
  return simulator.ledger.entries().reduce((sum, { model, eventsSent: sent }) => {
    return model === MODELS.large ? sum + sent : sum;
  }, 0);
}
