/** A client can disconnect at any moment. The upstream call then ends too, and one usage row records it. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { seeded } from "../../src/pool/pool.test-support.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { openStreamClient, type StreamClient } from "../support/stream-client.ts";

/** Far longer than any of these tests: an upstream that ends in time was aborted. */
const MODELS = {
  silent: "fault/blackhole",
  "slow-headers": "sim-fast@first=60s",
  "no-content": "fault/stall@chunk1",
  endless: "sim-fast@events=5000,interval=5ms",
  long: "sim-fast@events=60,interval=5ms",
  short: "sim-fast@events=4",
  steady: "sim-fast@events=12,interval=4ms",
  "slow-whole": "sim-fast@first=60s",
} as const;
type PublicModel = keyof typeof MODELS;

const PATHS = { chat: "/v1/chat/completions", responses: "/v1/responses" } as const;
type Family = keyof typeof PATHS;
const FAMILIES: readonly Family[] = ["chat", "responses"];

function body(family: Family, model: PublicModel, stream = true): object {
  const question = "Hello";
  const prompt =
    family === "chat" ? { messages: [{ role: "user", content: question }] } : { input: question };
  return { ...prompt, model, stream };
}

let gateway: RunningGateway;
let draining: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
  draining = await startTestGateway({ models: MODELS, onDisconnect: "drain" });
});

afterEach(() => {
  gateway.simulator.ledger.reset();
  draining.simulator.ledger.reset();
});

afterAll(async () => {
  await gateway.stop();
  await draining.stop();
});

function open(at: RunningGateway, family: Family, model: PublicModel, stream = true): StreamClient {
  return openStreamClient(at.url, PATHS[family], body(family, model, stream));
}

function arrived(at: RunningGateway): Promise<LedgerEntry> {
  return eventually(() => at.simulator.ledger.last());
}

async function nothingInFlight(at: RunningGateway): Promise<void> {
  await eventually(() => at.simulator.ledger.totals().inFlight, { equals: 0 });
}

/** The usage rows since the count was taken, once there are as many as expected. */
async function rowsSince(at: RunningGateway, before: number, expected: number) {
  const rows = await eventually(async () => {
    const all = await at.usageRows();
    return all.length >= before + expected ? all : null;
  });
  expect(rows.length).toBe(before + expected);
  return rows.slice(before).map((row) => asRecord(row));
}

const saysSomething = (text: string) => /output_text\.delta|"content":"[^"]/.test(text);

describe("a client that disconnects", () => {
  test.each(
    FAMILIES.flatMap((family) =>
      (["silent", "slow-headers", "no-content"] as const).flatMap((model) =>
        (["fin", "reset"] as const).map((how) => ({ family, model, how })),
      ),
    ),
  )("before any content aborts the upstream call ($family, $model, $how)", async ({ family, model, how }) => {
    const before = (await gateway.usageRows()).length;
    const client = open(gateway, family, model);
    const entry = await arrived(gateway);
    client.disconnect(how);
    await nothingInFlight(gateway);
    expect(entry).toMatchObject({ finished: false, abortedByClient: true });
    const [row] = await rowsSince(gateway, before, 1);
    expect(row).toMatchObject({ outcome: "client_gone", attempts: 1, output_tokens: 0 });
  });

  test("while it waits for a whole response aborts the upstream call", async () => {
    const before = (await gateway.usageRows()).length;
    const client = open(gateway, "chat", "slow-whole", false);
    const entry = await arrived(gateway);
    // After the gateway has begun to watch for disconnects.
    await Bun.sleep(150);
    client.disconnect("fin");
    await nothingInFlight(gateway);
    expect(entry.abortedByClient).toBe(true);
    const [row] = await rowsSince(gateway, before, 1);
    expect(row).toMatchObject({ outcome: "client_gone", status: 499, stream: 0 });
  });

  test.each(FAMILIES.flatMap((family) => (["fin", "reset"] as const).map((how) => ({ family, how }))))(
    "in the middle of a stream aborts the upstream call ($family, $how)",
    async ({ family, how }) => {
      const before = (await gateway.usageRows()).length;
      const client = open(gateway, family, "endless");
      await client.until(saysSomething);
      client.disconnect(how);
      await nothingInFlight(gateway);
      const entry = gateway.simulator.ledger.last();
      expect(entry).toMatchObject({ finished: false, abortedByClient: true });
      expect(entry?.textDeltasSent).toBeLessThan(5_000);
      const [row] = await rowsSince(gateway, before, 1);
      expect(row).toMatchObject({ outcome: "client_gone", status: 200, error_code: null });
    },
  );

  test.each(FAMILIES)("right after the last byte has received its whole response (%s)", async (family) => {
    const before = (await gateway.usageRows()).length;
    const count = 20;
    const clients = Array.from({ length: count }, () => open(gateway, family, "short"));
    await Promise.all(
      clients.map(async (client) => {
        await client.until((text) => text.endsWith("data: [DONE]\n\n"));
        client.disconnect("reset");
      }),
    );
    await nothingInFlight(gateway);
    const truth = gateway.simulator.ledger.last();
    for (const row of await rowsSince(gateway, before, count)) {
      expect(row).toMatchObject({
        outcome: "completed",
        usage_source: "upstream",
        output_tokens: truth?.outputTokens ?? -1,
      });
    }
  });
});

describe("in a group with on_disconnect drain", () => {
  test.each(FAMILIES)(
    "the upstream is read to its end and its usage is recorded in full (%s)",
    async (family) => {
      const before = (await draining.usageRows()).length;
      const client = open(draining, family, "long");
      await client.until(saysSomething);
      client.disconnect("reset");
      await nothingInFlight(draining);
      const entry = draining.simulator.ledger.last();
      expect(entry).toMatchObject({ finished: true, abortedByClient: false, textDeltasSent: 60 });
      const [row] = await rowsSince(draining, before, 1);
      expect(row).toMatchObject({
        outcome: "client_gone",
        usage_source: "upstream",
        input_tokens: entry?.inputTokens ?? -1,
        output_tokens: entry?.outputTokens ?? -1,
      });
    },
  );

  test("the drain has its own timeout", async () => {
    const impatient = await startTestGateway({
      models: MODELS,
      onDisconnect: "drain",
      limits: { drainOnDisconnectMs: 100 },
    });
    try {
      const client = open(impatient, "chat", "endless");
      await client.until(saysSomething);
      client.disconnect("reset");
      await nothingInFlight(impatient);
      expect(impatient.simulator.ledger.last()).toMatchObject({ finished: false, abortedByClient: true });
      const [row] = await rowsSince(impatient, 0, 1);
      expect(row).toMatchObject({ outcome: "client_gone" });
    } finally {
      await impatient.stop();
    }
  });
});

describe("500 clients that disconnect at random", () => {
  test.each([
    { name: "cancel", at: () => gateway },
    { name: "drain", at: () => draining },
  ])("leave nothing in flight ($name)", async ({ at }) => {
    const running = at();
    const before = (await running.usageRows()).length;
    const total = 500;
    let left = total;
    const random = seeded(4_711);
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        while (left-- > 0) {
          const family = FAMILIES[left % FAMILIES.length] ?? "chat";
          const client = open(running, family, "steady");
          // One in five reads the whole response, two read its first words, and two disconnect at any moment: from
          // before the request has been read until after the response is complete.
          const stay = left % 5;
          const pauseMs = random() * 90;
          const how = random() < 0.5 ? "fin" : "reset";
          if (stay === 0) await client.ended;
          else if (stay < 3) await client.until(saysSomething);
          else await Promise.race([client.ended, Bun.sleep(pauseMs)]);
          client.disconnect(how);
        }
      }),
    );
    await nothingInFlight(running);
    // A request that never arrived whole has no row; a request that reached the upstream has exactly one.
    const asked = running.simulator.ledger.totals().requests;
    expect(asked).toBeGreaterThanOrEqual((total * 3) / 5);
    const rows = await eventually(async () => {
      const all = (await running.usageRows()).slice(before);
      return all.filter(({ attempts }) => Number(attempts) > 0).length >= asked ? all : null;
    });
    const sent = rows.filter(({ attempts }) => Number(attempts) > 0);
    // A request whose client disconnected at the moment of sending may be aborted before it arrives upstream.
    expect(sent.length).toBeGreaterThanOrEqual(asked);
    expect(sent.length).toBeLessThanOrEqual(total);
    const outcomes = new Set(sent.map(({ outcome }) => String(outcome)));
    expect([...outcomes].toSorted()).toEqual(["client_gone", "completed"]);
    for (const { outcome, usage_source } of sent) {
      if (outcome === "completed") expect(usage_source).toBe("upstream");
    }
    // Recorded usage was produced: no request counts twice, and none counts more than was produced.
    const recorded = sent.reduce((sum, { output_tokens }) => sum + Number(output_tokens), 0);
    expect(recorded).toBeGreaterThan(0);
    expect(recorded).toBeLessThanOrEqual(running.simulator.ledger.totals().outputTokens);
  });
});
