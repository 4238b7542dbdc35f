/** A client may leave at any moment. What was asked of the upstream then ends too, and one usage row tells of it. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { seeded } from "../../src/pool/pool.test-support.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { recordOf } from "../support/sse-text.ts";
import { openStreamClient, type StreamClient } from "../support/stream-client.ts";

/** Far longer than any of these tests: an upstream that ends in time was ended. */
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

function nothingInFlight(at: RunningGateway): Promise<true> {
  return eventually(() => at.simulator.ledger.totals().inFlight === 0);
}

/** The rows that came since the number of them was taken, when there are as many as expected. */
async function rowsSince(at: RunningGateway, before: number, expected: number) {
  const rows = await eventually(async () => {
    const all = await at.usageRows();
    return all.length >= before + expected ? all : null;
  });
  expect(rows.length).toBe(before + expected);
  return rows.slice(before).map((row) => recordOf(row));
}

const saysSomething = (text: string) => /output_text\.delta|"content":"[^"]/.test(text);

describe("a client that leaves", () => {
  test.each(
    FAMILIES.flatMap((family) =>
      (["silent", "slow-headers", "no-content"] as const).flatMap((model) =>
        (["fin", "reset"] as const).map((how) => ({ family, model, how })),
      ),
    ),
  )(
    "before there is any content ends the upstream's work ($family, $model, $how)",
    async ({ family, model, how }) => {
      const before = (await gateway.usageRows()).length;
      const client = open(gateway, family, model);
      const entry = await arrived(gateway);
      client.leave(how);
      await nothingInFlight(gateway);
      expect(entry).toMatchObject({ finished: false, abortedByClient: true });
      const [row] = await rowsSince(gateway, before, 1);
      expect(row).toMatchObject({ outcome: "client_gone", attempts: 1, output_tokens: 0 });
    },
  );

  test("while it waits for a whole answer ends the upstream's work", async () => {
    const before = (await gateway.usageRows()).length;
    const client = open(gateway, "chat", "slow-whole", false);
    const entry = await arrived(gateway);
    // Later than the moment from which the gateway watches, and on the way to it.
    await Bun.sleep(150);
    client.leave("fin");
    await nothingInFlight(gateway);
    expect(entry.abortedByClient).toBe(true);
    const [row] = await rowsSince(gateway, before, 1);
    expect(row).toMatchObject({ outcome: "client_gone", status: 499, stream: 0 });
  });

  test.each(FAMILIES.flatMap((family) => (["fin", "reset"] as const).map((how) => ({ family, how }))))(
    "in the middle of a stream ends the upstream's work ($family, $how)",
    async ({ family, how }) => {
      const before = (await gateway.usageRows()).length;
      const client = open(gateway, family, "endless");
      await client.until(saysSomething);
      client.leave(how);
      await nothingInFlight(gateway);
      const entry = gateway.simulator.ledger.last();
      expect(entry).toMatchObject({ finished: false, abortedByClient: true });
      expect(entry?.textDeltasSent).toBeLessThan(5_000);
      const [row] = await rowsSince(gateway, before, 1);
      expect(row).toMatchObject({ outcome: "client_gone", status: 200, error_code: null });
    },
  );

  test.each(FAMILIES)("right after the last byte has had its whole answer (%s)", async (family) => {
    const before = (await gateway.usageRows()).length;
    const count = 20;
    const clients = Array.from({ length: count }, () => open(gateway, family, "short"));
    await Promise.all(
      clients.map(async (client) => {
        await client.until((text) => text.endsWith("data: [DONE]\n\n"));
        client.leave("reset");
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

describe("in a group that drains", () => {
  test.each(FAMILIES)(
    "the upstream is read to its end and its usage recorded in full (%s)",
    async (family) => {
      const before = (await draining.usageRows()).length;
      const client = open(draining, family, "long");
      await client.until(saysSomething);
      client.leave("reset");
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

  test("the drain has an end of its own", async () => {
    const impatient = await startTestGateway({
      models: MODELS,
      onDisconnect: "drain",
      limits: { drainOnDisconnectMs: 100 },
    });
    try {
      const client = open(impatient, "chat", "endless");
      await client.until(saysSomething);
      client.leave("reset");
      await nothingInFlight(impatient);
      expect(impatient.simulator.ledger.last()).toMatchObject({ finished: false, abortedByClient: true });
      const [row] = await rowsSince(impatient, 0, 1);
      expect(row).toMatchObject({ outcome: "client_gone" });
    } finally {
      await impatient.stop();
    }
  });
});

describe("five hundred clients that leave at random", () => {
  test.each([
    { name: "cancel", at: () => gateway },
    { name: "drain", at: () => draining },
  ])("leave nothing behind ($name)", async ({ at }) => {
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
          // One in five stays for the whole answer, two for its first words, and two leave at any moment: from before
          // the request has been read until after the answer is over.
          const stay = left % 5;
          const pauseMs = random() * 90;
          const how = random() < 0.5 ? "fin" : "reset";
          if (stay === 0) await client.ended;
          else if (stay < 3) await client.until(saysSomething);
          else await Promise.race([client.ended, Bun.sleep(pauseMs)]);
          client.leave(how);
        }
      }),
    );
    await nothingInFlight(running);
    // A request that never arrived whole has no row; one that reached the upstream has exactly one.
    const asked = running.simulator.ledger.totals().requests;
    expect(asked).toBeGreaterThanOrEqual((total * 3) / 5);
    const rows = await eventually(async () => {
      const all = (await running.usageRows()).slice(before);
      return all.filter(({ attempts }) => Number(attempts) > 0).length >= asked ? all : null;
    });
    const sent = rows.filter(({ attempts }) => Number(attempts) > 0);
    // One whose client left in the very moment it was sent may have been taken back before it arrived.
    expect(sent.length).toBeGreaterThanOrEqual(asked);
    expect(sent.length).toBeLessThanOrEqual(total);
    const outcomes = new Set(sent.map(({ outcome }) => String(outcome)));
    expect([...outcomes].toSorted()).toEqual(["client_gone", "completed"]);
    for (const { outcome, usage_source } of sent) {
      if (outcome === "completed") expect(usage_source).toBe("upstream");
    }
    // What is recorded was produced: no request counts twice, and none more than there was.
    const recorded = sent.reduce((sum, { output_tokens }) => sum + Number(output_tokens), 0);
    expect(recorded).toBeGreaterThan(0);
    expect(recorded).toBeLessThanOrEqual(running.simulator.ledger.totals().outputTokens);
  });
});
