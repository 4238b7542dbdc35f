/** Clients that take what they are sent when they like: every byte waits for them, upstream and not here. */

import { expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { spawnGateway } from "../support/spawned-gateway.ts";
import { openDoor } from "./door.ts";
import { chatBody, get, post } from "./messages.ts";
import { openWire, type WireAnswer } from "./raw-client.ts";

const MB = 1_000_000;
const EVENTS = 2_000;
const MODELS = {
  large: `sim-fast@events=${EVENTS},bytes=${40 * MB}`,
  whole: `sim-fast@bytes=${20 * MB}`,
  short: "sim-fast@events=4",
} as const;

const door = openDoor({ models: MODELS });

/** What was said, without what differs from answer to answer. */
function said(answer: WireAnswer): string {
  const lines = answer.body.toString().split("\n");
  return lines.flatMap((line) => /"content":"([^"]+)"/.exec(line)?.[1] ?? []).join("");
}

const ask = (model: keyof typeof MODELS, stream: boolean) => post(chatBody({ model, stream }));

/** Waits until a count has stopped growing. */
async function standsStill(count: () => number): Promise<void> {
  let last = -1;
  let same = 0;
  await eventually(() => {
    const now = count();
    same = now === last ? same + 1 : 0;
    last = now;
    return now > 0 && same >= 30;
  }, 30_000);
}

test("a stream that is read late is held up at its source, and comes whole", async () => {
  const atOnce = await door.answerTo(ask("large", true));
  const client = await openWire(door.gateway.url);
  client.pause();
  await client.send(ask("large", true));
  const entry = await eventually(() => {
    const last = door.gateway.simulator.ledger.last();
    return last === null || last.finished ? null : last;
  });
  await standsStill(() => entry.eventsSent);
  expect(entry.eventsSent).toBeLessThan(EVENTS);
  client.resume();
  const late = await client.answer();
  expect(said(late).length).toBe(40 * MB);
  expect(said(late) === said(atOnce)).toBe(true);
  expect(late.body.toString().endsWith("data: [DONE]\n\n")).toBe(true);
  client.leave("fin");
});

test("a stream that is read in fits comes whole", async () => {
  const client = await openWire(door.gateway.url);
  await client.send(ask("large", true));
  let over = false;
  const coming = client.answer().then((answer) => {
    over = true;
    return answer;
  });
  for (let fit = 0; !over; fit++) {
    client.pause();
    await Bun.sleep(fit % 7);
    client.resume();
    await Bun.sleep(fit % 3);
  }
  expect(said(await coming).length).toBe(40 * MB);
  client.leave("fin");
});

test("a large answer in one piece that is read late comes whole, and the next one behind it", async () => {
  const client = await openWire(door.gateway.url);
  client.pause();
  await client.send(ask("whole", false) + get("/healthz"));
  await eventually(() => door.gateway.simulator.ledger.last()?.finished === true);
  client.resume();
  const answer = await client.answer();
  expect(said(answer).length).toBe(20 * MB);
  expect((await client.answer()).body.toString()).toBe('{"status":"ok"}');
  client.leave("fin");
});

test("a client that asks again and again and reads nothing is not worked for without end", async () => {
  const client = await openWire(door.gateway.url);
  door.gateway.simulator.ledger.reset();
  client.pause();
  const requests = Array.from({ length: 200 }, () => ask("large", true)).join("");
  await client.send(requests);
  await standsStill(() =>
    door.gateway.simulator.ledger.entries().reduce((sum, { eventsSent }) => sum + eventsSent, 0),
  );
  expect(door.gateway.simulator.ledger.totals().requests).toBe(1);
  client.leave("reset");
  await eventually(() => door.gateway.simulator.ledger.totals().inFlight === 0);
});

test.each([
  ["in many pieces", "/openapi.json", 2_000],
  ["in one piece", "/v1/models", 6_000],
])(
  "answers that were asked for at once and are not read do not fill the memory: %s",
  async (_, path, count) => {
    const names = Array.from({ length: 200 }, (_name, i) => [`model-${i}`, "sim-fast"]);
    const spawned = await spawnGateway(Object.fromEntries(names), door.gateway.simulator.url);
    const client = await openWire(spawned.url);
    try {
      await client.send(get(path));
      const { status, body } = await client.answer();
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
      for (let i = 0; i < count; i++) expect((await client.answer()).body.equals(body)).toBe(true);
    } finally {
      client.leave("reset");
      await spawned.stop();
    }
  },
);

test("one that leaves with much of it unread ends the upstream's work", async () => {
  const client = await openWire(door.gateway.url);
  client.pause();
  await client.send(ask("large", true));
  await eventually(() => door.gateway.simulator.ledger.totals().inFlight === 1);
  client.leave("fin");
  await eventually(() => door.gateway.simulator.ledger.totals().inFlight === 0);
  expect(door.gateway.simulator.ledger.last()).toMatchObject({ finished: false, abortedByClient: true });
});
