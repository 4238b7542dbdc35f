/** The ways to cheat that `fraud` plays: each is one round of one user, at random. */

import { type ClientRecord, type ClientRequest, sendRequest } from "./client.ts";
import { MARKER_HEADERS } from "./killable-gateway.ts";

/** One request of a cheat. */
export interface Trick {
  asked: Pick<ClientRecord, "marker" | "status" | "errorCode" | "leftAfterMs">;
  /** Output tokens of the stored response that was read later. */
  readTokens?: number;
}

export interface Cheat {
  url: string;
  key: string;
  /** Between 0 and 1. */
  leave(): number;
}

export interface Scenario {
  name: string;
  /** Public model → upstream model. */
  models: Readonly<Record<string, string>>;
  /** Further fields of its group. */
  group: object;
  /** How much of the price may be missing, or charged too much, as a share of it. */
  tolerance: number;
  /** The window of each key, where it has one. */
  windowNano?: number;
  play(cheat: Cheat): Promise<Trick[]>;
}

const STREAM_MS = 1_500;
const FILE = { type: "input_file", file_url: "https://example.com/report.pdf" };
const withFile = {
  input: [{ role: "user", content: [FILE, { type: "input_text", text: "Summarise it." }] }],
};

const asTrick = (asked: ClientRecord): Trick => ({ asked });

/**
 * Holds the balance by a bound that is never reached, has files read meanwhile, and leaves. A file of `big` has more
 * tokens than the gateway takes a context window for, so that some cost more than their hold whatever is done.
 */
const parking: Scenario = {
  name: "parking",
  models: {
    parked: `sim-fast@events=75,interval=${STREAM_MS / 75}ms`,
    reader: "sim-fast@file=60000,events=4",
    big: "sim-fast@file=200000,events=4",
  },
  group: { on_disconnect: "drain" },
  tolerance: 0,
  async play({ url, key, leave }) {
    const ask = (
      asking: Pick<ClientRequest, "family" | "model" | "stream" | "more"> & Partial<ClientRequest>,
    ) => sendRequest({ url, key, prompt: "Tell me a story.", ...asking });
    const parked = ask({
      family: "chat",
      model: "parked",
      stream: true,
      more: { n: 8, max_tokens: 1_000 + Math.floor(leave() * 11_000) },
      leaveAfterMs: 100 + leave() * STREAM_MS,
    });
    await Bun.sleep(leave() * 100);
    const reading = Array.from({ length: 1 + Math.floor(leave() * 3) }, () =>
      ask({
        family: "responses",
        model: leave() < 0.4 ? "big" : "reader",
        stream: leave() < 0.5,
        more: { ...withFile, max_output_tokens: 20 + Math.floor(leave() * 200) },
      }),
    );
    return (await Promise.all([parked, ...reading])).map(asTrick);
  },
};

/** Leaves streams of a model that reasons at some moment, and whole responses before they are there. */
const leaving: Scenario = {
  name: "leaving",
  models: { reason: "sim-reason@events=30,interval=20ms", whole: "sim-reason@first=300ms" },
  group: {},
  tolerance: 0.01,
  async play({ url, key, leave }) {
    const responses = Array.from({ length: 3 }, () => {
      const stream = leave() < 0.7;
      return sendRequest({
        url,
        key,
        family: leave() < 0.5 ? "chat" : "responses",
        model: stream ? "reason" : "whole",
        stream,
        prompt: "Think about it, then tell me a story about a ship.",
        more: leave() < 0.5 ? { max_tokens: 2_000 } : {},
        leaveAfterMs: 60 + leave() * (stream ? 700 : 350),
      });
    });
    return (await Promise.all(responses)).map(asTrick);
  },
};

/** Reads the id of a stored stream, leaves, and retrieves the whole response later. */
const stored: Scenario = {
  name: "stored",
  models: { kept: "sim-fast@events=40,interval=20ms" },
  group: {},
  tolerance: 0.01,
  async play(cheat) {
    const first = await leaveStored(cheat);
    if (first.responseId === null) return [first.trick];
    await Bun.sleep(cheat.leave() * 1_500);
    const response = await fetch(`${cheat.url}/v1/responses/${first.responseId}`, {
      headers: { authorization: `Bearer ${cheat.key}` },
    });
    const received = await response.text();
    if (response.status !== 200) return [first.trick];
    const { usage }: { usage?: { output_tokens?: number } | null } = JSON.parse(received);
    return [{ ...first.trick, readTokens: usage?.output_tokens ?? 0 }];
  },
};

let storedStreams = 0;

async function leaveStored({ url, key, leave }: Cheat) {
  const marker = `fraud-stored-${process.pid}-${++storedStreams}`;
  const leavingEarly = new AbortController();
  const startedMs = performance.now();
  const asked = {
    marker,
    status: null as number | null,
    errorCode: null,
    leftAfterMs: null as number | null,
  };
  let responseId: string | null = null;
  let seen = "";
  const timer = setTimeout(() => leavingEarly.abort(), 100 + leave() * 600);
  try {
    const response = await fetch(`${url}/v1/responses`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        [MARKER_HEADERS.openai]: marker,
      },
      body: JSON.stringify({ model: "kept", input: "Tell me a story.", stream: true, store: true }),
      signal: leavingEarly.signal,
    });
    asked.status = response.status;
    for await (const chunk of response.body ?? []) {
      seen += new TextDecoder().decode(chunk);
      responseId ??= /"id":"(resp_[^"]+)"/.exec(seen)?.[1] ?? null;
    }
  } catch {
    asked.leftAfterMs = performance.now() - startedMs;
  }
  clearTimeout(timer);
  return { trick: { asked }, responseId };
}

const WINDOW_USD = "0.01";

/** Many at once, mostly without a bound, on a window that pays for a part of one response. */
const windows: Scenario = {
  name: "windows",
  models: { long: "sim-fast@bytes=8000,first=100ms", short: "sim-fast@first=50ms" },
  group: { limits: { windows: [{ per: "5h", usd: WINDOW_USD }] } },
  tolerance: 0,
  windowNano: Number(WINDOW_USD) * 1e9,
  async play({ url, key, leave }) {
    const responses = Array.from({ length: 25 }, () =>
      sendRequest({
        url,
        key,
        family: leave() < 0.5 ? "chat" : "responses",
        model: leave() < 0.5 ? "long" : "short",
        stream: leave() < 0.5,
        prompt: "Tell me a story about a ship, a storm and a cook.",
        more: {},
      }),
    );
    return (await Promise.all(responses)).map(asTrick);
  },
};

export const SCENARIOS: readonly Scenario[] = [parking, leaving, stored, windows];
