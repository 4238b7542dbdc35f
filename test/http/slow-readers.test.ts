/** Clients that read slowly: back-pressure holds the stream at the upstream, not in the gateway's memory. */

import { expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eventually } from "../support/eventually.ts";
import { spawnGateway } from "../support/spawned-gateway.ts";
import { chatBody, get, post } from "./messages.ts";
import { openRawClient, type RawResponse } from "./raw-client.ts";
import { startServerForTests } from "./test-gateway.ts";

const MB = 1_000_000;
const EVENTS = 2_000;
const MODELS = {
  large: `sim-fast@events=${EVENTS},bytes=${40 * MB}`,
  whole: `sim-fast@bytes=${20 * MB}`,
  short: "sim-fast@events=4",
} as const;

const server = startServerForTests({ models: MODELS });

/** The text without the fields that differ between responses. */
function comparableText(response: RawResponse): string {
  const lines = response.body.toString().split("\n");
  return lines.flatMap((line) => /"content":"([^"]+)"/.exec(line)?.[1] ?? []).join("");
}

const ask = (model: keyof typeof MODELS, stream: boolean) => post(chatBody({ model, stream }));

/** Waits until a count stops growing. */
async function standsStill(count: () => number): Promise<void> {
  let last = -1;
  let same = 0;
  await eventually(() => {
    const now = count();
    same = now === last ? same + 1 : 0;
    last = now;
    return now > 0 && same >= 30;
  });
}

test("a stream that is read late is held at the upstream and arrives whole", async () => {
  const atOnce = await server.sendAlone(ask("large", true));
  const { ledger } = server.gateway.simulator;
  const firstEntry = ledger.last();
  const client = await openRawClient(server.gateway.url);
  client.pause();
  await client.send(ask("large", true));
  const entry = await eventually(() => {
    const last = ledger.last();
    return last === firstEntry ? null : last;
  });
  await standsStill(() => entry.eventsSent);
  expect(entry.eventsSent).toBeLessThan(EVENTS);
  client.resume();
  const late = await client.readResponse();
  expect(comparableText(late).length).toBe(40 * MB);
  expect(comparableText(late) === comparableText(atOnce)).toBe(true);
  expect(late.body.toString().endsWith("data: [DONE]\n\n")).toBe(true);
  client.close("fin");
});

test("a stream that is read in bursts arrives whole", async () => {
  const client = await openRawClient(server.gateway.url);
  await client.send(ask("large", true));
  let over = false;
  const coming = client.readResponse().then((response) => {
    over = true;
    return response;
  });
  for (let fit = 0; !over; fit++) {
    client.pause();
    await Bun.sleep(fit % 7);
    client.resume();
    await Bun.sleep(fit % 3);
  }
  expect(comparableText(await coming).length).toBe(40 * MB);
  client.close("fin");
});

test("a large whole response that is read late arrives whole, and so does the next one", async () => {
  const client = await openRawClient(server.gateway.url);
  client.pause();
  await client.send(ask("whole", false) + get("/healthz"));
  await eventually(() => server.gateway.simulator.ledger.last()?.finished, { equals: true });
  client.resume();
  const response = await client.readResponse();
  expect(comparableText(response).length).toBe(20 * MB);
  expect((await client.readResponse()).body.toString()).toBe('{"status":"ok"}');
  client.close("fin");
});

test("a client that sends many requests and reads nothing has only one in flight", async () => {
  const client = await openRawClient(server.gateway.url);
  server.gateway.simulator.ledger.reset();
  client.pause();
  const requests = Array.from({ length: 200 }, () => ask("large", true)).join("");
  await client.send(requests);
  await standsStill(() =>
    server.gateway.simulator.ledger.entries().reduce((sum, { eventsSent }) => sum + eventsSent, 0),
  );
  expect(server.gateway.simulator.ledger.totals().requests).toBe(1);
  client.close("reset");
  await eventually(() => server.gateway.simulator.ledger.totals().inFlight, { equals: 0 });
});

test.each([
  ["in many pieces", "/openapi.json", 2_000],
  // Within the rate of a key.
  ["in one piece", "/v1/models", limits.readsOfKey.burst - 10],
])("pipelined responses that are not read do not fill the memory: %s", async (_, path, count) => {
  const names = Array.from({ length: 2_000 }, (_name, i) => [`model-${i}`, "sim-fast"]);
  const spawned = await spawnGateway(Object.fromEntries(names), server.gateway.simulator.url);
  const client = await openRawClient(spawned.url);
  try {
    await client.send(get(path));
    const { status, body } = await client.readResponse();
    expect(status).toBe(200);
    const beforeBytes = spawned.residentBytes();
    client.pause();
    await client.send(get(path).repeat(count));
    await standsStill(() => spawned.residentBytes());
    const grownBytes = spawned.residentBytes() - beforeBytes;
    console.log(
      `${count} answers of ${body.length} bytes, unread: grew by ${(grownBytes / MB).toFixed(0)} MB`,
    );
    expect(grownBytes).toBeLessThan((count * body.length) / 4);
    client.resume();
    for (let i = 0; i < count; i++) expect((await client.readResponse()).body.equals(body)).toBe(true);
  } finally {
    client.close("reset");
    await spawned.stop();
  }
});

test("a client that disconnects with unread data aborts the upstream call", async () => {
  const client = await openRawClient(server.gateway.url);
  client.pause();
  await client.send(ask("large", true));
  await eventually(() => server.gateway.simulator.ledger.totals().inFlight, { equals: 1 });
  client.close("fin");
  await eventually(() => server.gateway.simulator.ledger.totals().inFlight, { equals: 0 });
  expect(server.gateway.simulator.ledger.last()).toMatchObject({ finished: false, abortedByClient: true });
});
