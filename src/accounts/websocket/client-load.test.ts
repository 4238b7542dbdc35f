/** Many concurrent conversations with all kinds of failures: each turn ends exactly once, and no socket leaks. */

import { expect, test } from "bun:test";
import { startSimulator } from "../../../simulator/simulator.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { partBytes, wholePart } from "../../base/parts.ts";
import { socketAccount } from "../account.test-support.ts";
import { openSocketClient, UpstreamLane } from "./client.ts";

const CONVERSATIONS = 120;
const TURNS = 12;
const FREE_MAX = 40;

const MODELS = [
  "sim-fast@events=5",
  "sim-fast@events=5",
  "sim-fast@events=20,interval=1ms",
  "sim-tools",
  "fault/429@retry=1",
  "fault/rst@chunk3",
  "fault/cut@chunk4",
  "fault/refuse",
  "fault/forgets",
  "fault/connection-limit",
  "fault/error-in-stream",
  "fault/private-events",
  "fault/late-events",
  "fault/late-events@20ms",
  "fault/crash",
  "fault/hugeline@size=200000",
] as const;

/** A deterministic random generator. */
function openDice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

const ACCOUNT = socketAccount();

test("every turn ends once, receives only its own response, and leaks no socket", async () => {
  const simulator = startSimulator({ seed: 5 });
  const deadlines = openDeadlines(5, systemClock);
  const client = openSocketClient({
    deadlines,
    monotonicMs: systemClock.monotonicMs,
    connectTimeoutMs: 20_000,
    headBytesMax: 16_384,
    messageBytesMax: 1024 * 1024,
    errorBytesMax: 65_536,
    handshakeTimeoutMs: 20_000,
    ageMs: 150,
    idleMs: 100,
    pingMs: 5_000,
    freeMax: FREE_MAX,
    sentBytesMax: 1024 * 1024,
    reuseDelayMs: 0,
    unsupportedMs: 1,
    onUnsupported() {},
  });
  const target = { origin: `http://127.0.0.1:${simulator.port}`, hostHeader: null, tls: null };
  const roll = openDice(7);
  const ends = { end: 0, error: 0, failed: 0, aborted: 0 };

  function turn(upstreamLane: UpstreamLane, word: string): Promise<void> {
    const model = MODELS[roll(MODELS.length)];
    const leaves = roll(12) === 0;
    const pauses = roll(4) === 0;
    const previous = upstreamLane.last?.responseId;
    const whole = { model, input: `About ${word}`, store: false, metadata: { word } };
    const parts = (body: object) => wholePart(Buffer.from(JSON.stringify(body)));
    return new Promise((resolve, reject) => {
      let calls = 0;
      let text = "";
      const over = (how: keyof typeof ends) => {
        ends[how]++;
        if (++calls > 1) reject(new Error(`a turn with ${model} ended twice`));
        // The response of another turn would contain another word.
        for (const [, other] of text.matchAll(/"metadata":\{"word":"(\w+)"\}/g)) {
          if (other !== word) reject(new Error(`${word} received the response of ${other}`));
        }
        if (text.includes("CANARY")) reject(new Error(`${word} received a late response`));
        resolve();
      };
      const exchange = client.send(
        {
          account: ACCOUNT,
          target,
          path: "/v1/responses",
          headers: "",
          upstreamLane,
          wholeBody: parts(whole),
          tail:
            previous === undefined
              ? null
              : { responseId: previous, body: () => parts({ ...whole, previous_response_id: previous }) },
        },
        {
          head() {},
          data(piece) {
            text += Buffer.from(partBytes(piece)).toString();
            if (leaves && calls === 0) {
              exchange.abort();
              over("aborted");
            } else if (pauses) {
              exchange.pause();
              setImmediate(() => exchange.resume());
            }
          },
          end: () => over("end"),
          fail: ({ kind }) => over(kind === "error_message" ? "error" : "failed"),
        },
      );
    });
  }

  async function converse(number: number): Promise<void> {
    const thread = new UpstreamLane();
    for (let i = 0; i < TURNS; i++) {
      await turn(thread, `w${number}`);
      if (roll(40) === 0) simulator.closeSockets(roll(2) === 0 ? null : 1012);
    }
    thread.end();
  }

  await Promise.all(Array.from({ length: CONVERSATIONS }, (_, number) => converse(number)));
  expect(ends.end + ends.error + ends.failed + ends.aborted).toBe(CONVERSATIONS * TURNS);
  for (const count of Object.values(ends)) expect(count).toBeGreaterThan(0);
  await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
  await eventually(() => simulator.ledger.sockets().open <= FREE_MAX);
  client.close();
  await eventually(() => simulator.ledger.sockets().open, { equals: 0 });
  deadlines.stop();
  await simulator.stop();
}, 60_000);
