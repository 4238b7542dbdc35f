/**
 * An upstream's stream can end anywhere. At any byte and with any kind of end, the client gets exactly one terminal
 * event or one HTTP error, and the request has exactly one usage row with the same outcome.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import {
  buildChunk,
  EVENT_STREAM_HEAD,
  LAST_CHUNK,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted-upstream.ts";
import { eventsIn, type SentEvent } from "../support/sse-text.ts";

/** How the connection ends after the last sent byte. */
const ENDINGS = ["complete message", "fin in a chunk", "fin", "reset"] as const;
type Ending = (typeof ENDINGS)[number];
/** The runtime's HTTP client drops undelivered data when a message is cut off. */
const LOSSY: readonly Ending[] = ["fin in a chunk", "reset"];

interface Family {
  path: string;
  body: Record<string, unknown>;
  /** The outcome that the complete events so far lead to. */
  reached(events: readonly SentEvent[]): { verdict: Verdict; usage: boolean };
  isTerminal(event: SentEvent): boolean;
  isFailure(event: SentEvent): boolean;
  /** What follows the terminal event of a successful stream, and of a failed one. */
  after: { complete: string[]; broken: string[] };
}

/** The outcomes in the order in which a growing prefix of a stream reaches them. */
const VERDICTS = ["http error", "broken", "complete"] as const;
type Verdict = (typeof VERDICTS)[number];

const isDone = (event: SentEvent) => event.data === "[DONE]";
const typed = (...types: string[]) => {
  return (event: SentEvent) => event.type !== null && types.includes(event.type);
};

const FAMILIES: Readonly<Record<string, Family>> = {
  chat: {
    path: "/chat/completions",
    body: { messages: [{ role: "user", content: "Grüße" }], stream_options: { include_usage: true } },
    reached(events) {
      const finished = events.some(({ data }) => data.includes('"finish_reason":"stop"'));
      const outputText = events.some(({ data }) => /"delta":\{"content":"[^"]/.test(data));
      return {
        verdict: finished ? "complete" : outputText ? "broken" : "http error",
        usage: events.some(({ data }) => data.includes('"usage":{')),
      };
    },
    isTerminal: isDone,
    isFailure: ({ data }) => data.startsWith('{"error":'),
    after: { complete: [], broken: [] },
  },
  responses: {
    path: "/responses",
    body: { input: "Grüße", store: false },
    reached(events) {
      const complete = events.some(typed("response.completed"));
      const outputText = events.some((event) => !typed("response.created", "response.in_progress")(event));
      return { verdict: complete ? "complete" : outputText ? "broken" : "http error", usage: complete };
    },
    isTerminal: typed("response.completed", "response.failed", "response.incomplete"),
    isFailure: typed("response.failed", "error"),
    after: { complete: ["[DONE]"], broken: ["[DONE]"] },
  },
  images: {
    path: "/images/generations",
    body: { prompt: "A small square", partial_images: 1 },
    reached(events) {
      const complete = events.some(typed("image_generation.completed"));
      return {
        verdict: complete ? "complete" : events.length > 0 ? "broken" : "http error",
        usage: complete,
      };
    },
    isTerminal: typed("image_generation.completed", "error"),
    isFailure: typed("error"),
    after: { complete: [], broken: [] },
  },
};

/** So many that none is called more than twice: a model that fails three times cools down. */
const MODELS = 8_000;
const nameModel = (index: number) => `cut-${index}`;
let asked = 0;
/** A short response: the duration of these tests grows with its bytes. */
const RECORDED_MODEL = "sim-fast@events=2,bytes=64";
const AT_ONCE = 48;
/** Long enough for the gateway to read the sent data from its socket: a reset discards the rest. */
const BEFORE_RESET_MS = 20;

let gateway: RunningGateway;
let upstream: ScriptedUpstream;
const recorded = new Map<string, Buffer>();

beforeAll(async () => {
  upstream = await startScriptedUpstream(async ({ path, body }, connection) => {
    const whole = recorded.get(path.replace("/v1", "")) ?? Buffer.alloc(0);
    const { pieces, ending } = scriptIn(body, whole);
    const framed = ending !== "fin";
    await connection.write(
      framed ? EVENT_STREAM_HEAD : "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
    );
    for (const piece of pieces) {
      if (piece.length > 0) await connection.write(framed ? buildChunk(piece) : piece);
      if (pieces.length > 1) await Bun.sleep(1);
    }
    switch (ending) {
      case "complete message":
        await connection.write(LAST_CHUNK);
        return;
      case "fin in a chunk":
      case "fin":
        connection.end();
        return;
      case "reset":
        await Bun.sleep(BEFORE_RESET_MS);
        connection.reset();
    }
  });
  const names = range(0, MODELS - 1).map(nameModel);
  gateway = await startTestGateway({
    environment: { UPSTREAM_URL: upstream.url },
    file: `
models: [${names.map((id) => `{ id: ${id}, interfaces: [chat, responses, images] }`).join(", ")}]
accounts:
  - { name: cutter, kind: openai, base_url: "\${UPSTREAM_URL}", credential: sk-cut, private_network: true }
groups: [{ name: default, models: [${names.join(", ")}], accounts: [cutter] }]
keys: [{ name: test, group: default, secret: ${TEST_KEY} }]
`,
  });
  for (const { path, body } of Object.values(FAMILIES)) {
    const response = await fetch(gateway.simulator.url + path, {
      method: "POST",
      body: JSON.stringify({ ...body, model: RECORDED_MODEL, stream: true }),
    });
    // The images are the only long part of these streams, and all of their bytes are equivalent.
    const text = (await response.text()).replaceAll(/"b64_json":"[^"]*"/g, '"b64_json":"iVBORw0KGgo="');
    recorded.set(path, Buffer.from(text));
  }
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

for (const [name, family] of Object.entries(FAMILIES)) {
  describe(`a ${name} stream`, () => {
    test("ends correctly when it is a complete message after any of its bytes", async () => {
      const bytes = recordedFor(family).length;
      await checkAll(family, cutsAt(range(0, bytes), "complete message"));
    });

    test("ends correctly when its connection closes or resets after any of its bytes", async () => {
      const bytes = recordedFor(family).length;
      // Each byte has one of the endings, and each ending covers every part of the stream.
      const endings: Ending[] = ["fin in a chunk", "fin", "reset"];
      const cuts = range(0, bytes).map((at) => ({ at, ending: endings[at % 3] ?? "fin", paced: false }));
      await checkAll(family, [...cuts, { at: bytes, ending: "fin", paced: false }]);
    });

    test("ends correctly after any of its events, each sent in its own write", async () => {
      const boundaries = eventBoundaries(recordedFor(family));
      const cuts = ENDINGS.flatMap((ending) => boundaries.map((at) => ({ at, ending, paced: true })));
      await checkAll(family, cuts);
    });
  });
}

interface Cut {
  at: number;
  ending: Ending;
  /** Event by event instead of all at once. */
  paced: boolean;
}

interface Seen {
  cut: Cut;
  requestId: string;
  verdict: Verdict;
  status: number;
  /** The data of the content events, as the client received them. */
  content: string[];
}

function cutsAt(places: readonly number[], ending: Ending): Cut[] {
  return places.map((at) => ({ at, ending, paced: false }));
}

async function checkAll(family: Family, cuts: readonly Cut[]): Promise<void> {
  const seen: Seen[] = [];
  const left = [...cuts];
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let cut = left.pop(); cut !== undefined; cut = left.pop()) seen.push(await tryCut(family, cut));
    }),
  );
  await checkRows(family, seen);
  // Fails if one of the outcomes never occurred, because it was not tested then.
  expect([...new Set(seen.map(({ verdict }) => verdict))].toSorted()).toEqual([...VERDICTS].toSorted());
}

async function tryCut(family: Family, cut: Cut): Promise<Seen> {
  const response = await gateway.call(`/v1${family.path}`, {
    ...family.body,
    model: nameModel(asked++ % MODELS),
    stream: true,
    cut,
  });
  const requestId = response.headers.get("x-request-id") ?? "";
  const text = await response.text();
  const seen = { cut, requestId, status: response.status };
  const expected = expectedAt(family, cut.at);
  const about = `${JSON.stringify(cut)} gave ${response.status} ${text.slice(-600)}`;

  if (response.status !== 200) {
    expect(response.headers.get("content-type"), about).toStartWith("application/json");
    expect(JSON.parse(text).error, about).toMatchObject({ code: "upstream_error", request_id: requestId });
    checkVerdict("http error", expected.verdict, cut, about);
    return { ...seen, verdict: "http error", content: [] };
  }

  const events = eventsIn(text);
  const end = events.findIndex((event) => family.isTerminal(event) || family.isFailure(event));
  expect(end, about).toBeGreaterThan(-1);
  const terminal = events[end];
  const broken = terminal !== undefined && family.isFailure(terminal);
  expect(
    events.slice(end + 1).map(({ data }) => data),
    about,
  ).toEqual(broken ? family.after.broken : family.after.complete);
  const verdict = broken ? "broken" : "complete";
  checkVerdict(verdict, expected.verdict, cut, about);
  const content = events.slice(0, end).map(({ data }) => data);
  if (LOSSY.includes(cut.ending)) expect(content.length, about).toBeLessThanOrEqual(expected.contentEvents);
  else expect(content.length, about).toBe(expected.contentEvents);
  return { ...seen, verdict, content };
}

/** Lost data never arrived, so the stream may have ended earlier there, but never later. */
function checkVerdict(actual: Verdict, expected: Verdict, cut: Cut, about: string): void {
  if (LOSSY.includes(cut.ending)) {
    expect(VERDICTS.indexOf(actual), about).toBeLessThanOrEqual(VERDICTS.indexOf(expected));
  } else {
    expect(actual, about).toBe(expected);
  }
}

/** If no upstream reports usage, at least the input is known. */
const UNTOLD: Record<Verdict, string> = { complete: "estimated", broken: "partial", "http error": "none" };

async function checkRows(family: Family, seen: readonly Seen[]): Promise<void> {
  const rows = new Map((await gateway.usageRows()).map((row) => [String(row.request_id), row]));
  expect(new Set(seen.map(({ requestId }) => requestId)).size).toBe(seen.length);
  for (const { requestId, verdict, status, cut } of seen) {
    const row = rows.get(requestId);
    const about = `${JSON.stringify(cut)} ${JSON.stringify(row)}`;
    expect(row, about).toMatchObject({
      status,
      stream: 1,
      attempts: 1,
      outcome: OUTCOMES[verdict],
      error_code: verdict === "complete" ? null : "upstream_error",
    });
    if (LOSSY.includes(cut.ending)) continue;
    const { usage } = expectedAt(family, cut.at);
    expect(row?.usage_source, about).toBe(usage ? "upstream" : UNTOLD[verdict]);
    if (usage) expect(Number(row?.output_tokens), about).toBeGreaterThan(0);
  }
}

const OUTCOMES: Readonly<Record<Verdict, string>> = {
  "http error": "failed",
  broken: "upstream_cut",
  complete: "completed",
};

interface Expected {
  verdict: Verdict;
  usage: boolean;
  contentEvents: number;
}

/** The outcome that the complete events in the first `at` bytes lead to; a partial event does not count. */
function expectedAt(family: Family, at: number): Expected {
  const part = recordedFor(family).subarray(0, at);
  const end = part.lastIndexOf("\n\n");
  const events = end < 0 ? [] : eventsIn(part.toString("utf8", 0, end + 2));
  const { verdict, usage } = family.reached(events);
  const contentEvents = events.filter((event) => !family.isTerminal(event)).length;
  return { verdict, usage: usage && verdict === "complete", contentEvents };
}

function recordedFor(family: Family): Buffer {
  const bytes = recorded.get(family.path);
  if (bytes === undefined || bytes.length === 0) throw new Error(`nothing was recorded for ${family.path}`);
  return bytes;
}

/** The instruction reaches the upstream as an unknown field of the body. */
function scriptIn(body: Record<string, unknown>, whole: Buffer): { pieces: Buffer[]; ending: Ending } {
  const { at, ending, paced } = body.cut as Cut;
  const part = whole.subarray(0, at);
  if (!paced) return { pieces: [part], ending };
  const ends = eventBoundaries(part);
  return { pieces: ends.map((end, index) => part.subarray(ends[index - 1] ?? 0, end)), ending };
}

/** The boundaries between events: 0, and after each blank line. */
function eventBoundaries(bytes: Buffer): number[] {
  const ends = [0];
  for (let at = bytes.indexOf("\n\n"); at >= 0; at = bytes.indexOf("\n\n", at + 2)) ends.push(at + 2);
  return ends;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
