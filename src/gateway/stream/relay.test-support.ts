/** Test support: an upstream, a relay and a client, with the time and both ends controlled by the test. */

import { createParser } from "eventsource-parser";
import { clientError, upstreamFailure } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import { openDeadlines } from "../../net/wire/deadlines.ts";
import { joinParts, wholeBytesPart } from "../../net/wire/parts.ts";
import { openResponsesReader } from "../../protocols/responses/responses-stream.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { StreamIntake } from "../upstream/send-request.ts";
import { openUpstreamStream, type UpstreamStream } from "../upstream/upstream-stream.ts";
import { openRelay, type RelayOptions, type StreamEnd } from "./relay.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
/** Shared by all test files that use it, so it is never stopped. */
const alarms = openDeadlines(1, { monotonicMs: () => performance.now() });

export const TIMING = {
  keepAliveMs: 15_000,
  silentReasoningMs: 60_000,
  idleTimeoutMs: 300_000,
  writeStallMs: 60_000,
  drainOnDisconnectMs: 60_000,
  lastWordsMs: 2_000,
};

function reader(): StreamReader {
  return openResponsesReader({ publicModel: "fast", depthMax: 32, nowMs: () => 0 });
}

const event = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const RESPONSE = { id: "resp_1", model: "fast" };
export const CREATED = event("response.created", { sequence_number: 0, response: RESPONSE });
export const delta = (text: string) =>
  event("response.output_text.delta", { sequence_number: 7, delta: text });
const USAGE = { input_tokens: 3, output_tokens: 4 };
export const ITEM_DONE = event("response.output_item.done", { sequence_number: 8 });
export const ITEM_ADDED = event("response.output_item.added", { sequence_number: 9 });
export const COMPLETED = event("response.completed", { response: { ...RESPONSE, usage: USAGE } });
export const FAILED = event("response.failed", {
  response: { ...RESPONSE, error: { code: "server_error" } },
});
export const KEEP_ALIVE = ": keep-alive\n\n";

export function stage(change: Partial<RelayOptions> = {}) {
  let nowMs = 0;
  const beats = new Set<(nowMs: number) => void>();
  const ends: StreamEnd[] = [];
  /** What the relay wrote, and how much of it the client has read. */
  const sent: string[] = [];
  const writes: string[] = [];
  const upstreamState = { cancelled: false, paused: false };
  const early: ((to: StreamIntake) => void)[] = [];
  let intake: StreamIntake | null = null;
  let over = false;
  const tell = (deed: (to: StreamIntake) => void) => {
    if (over) return;
    if (intake === null) early.push(deed);
    else deed(intake);
  };
  const line = {
    pause() {
      upstreamState.paused = true;
    },
    resume() {
      upstreamState.paused = false;
    },
    hangUp() {
      over = true;
      upstreamState.cancelled = true;
    },
    stopWatching() {},
  };
  const opening = new Promise<UpstreamStream>((resolve, reject) => {
    const options = {
      line,
      reader: reader(),
      alarms,
      eventBytesMax: 10_000,
      holdMs: 0,
      monotonicMs: () => nowMs,
    };
    intake = openUpstreamStream(options, (result) => {
      if (result.kind === "open") resolve(result.stream);
      else {
        const audience = { publicModel: "fast", upstreamModel: "up", account: null, mentions: () => false };
        reject(clientError(result.failure, audience));
      }
    });
    for (const deed of early) deed(intake);
  });
  opening.catch(() => {});

  let ended = false;
  let cut = false;
  let readsWaiting = 0;
  let wakeReader: (() => void) | null = null;
  let makeRoom: (() => void) | null = null;
  const relay = openRelay({
    opening,
    openSpareReader: reader,
    requestId: "req_1",
    onDisconnect: "cancel",
    isPaid: false,
    needsDataEvents: false,
    describeFailure: (failure) => new ApiError("upstream_error", failure.reason),
    settle(end) {
      ends.push(end);
      return null;
    },
    checkpoint: null,
    mayDrain: () => true,
    leftDrain() {},
    cutOff() {
      cut = true;
      wakeReader?.();
    },
    pulse: {
      add(beat) {
        beats.add(beat);
        return () => beats.delete(beat);
      },
    },
    monotonicMs: () => nowMs,
    timing: TIMING,
    ...change,
  });
  relay.flowTo({
    write(parts) {
      sent.push(decoder.decode(joinParts(parts)));
      wakeReader?.();
      if (sent.length - writes.length <= readsWaiting) return null;
      return new Promise<void>((resolve) => {
        makeRoom = resolve;
      });
    },
    end(last) {
      if (last.length > 0) sent.push(decoder.decode(joinParts(last)));
      ended = true;
      wakeReader?.();
    },
  });

  return {
    ends,
    sent,
    writes,
    beats,
    upstreamState,
    opening,
    push: (text: string) => tell((to) => to.data(wholeBytesPart(utf8.encode(text)))),
    end() {
      tell((to) => to.end());
      over = true;
    },
    reset() {
      tell((to) => to.broke(upstreamFailure("reset", "ECONNRESET")));
      over = true;
    },
    /** One read of the client: a write, or null at the end. */
    async read(): Promise<string | null> {
      readsWaiting++;
      try {
        while (cut || sent.length === writes.length) {
          if (cut) throw new Error("the stream was cut");
          if (ended) return null;
          await new Promise<void>((resolve) => {
            const before = wakeReader;
            wakeReader = () => {
              before?.();
              resolve();
            };
          });
        }
      } finally {
        readsWaiting--;
      }
      const text = sent[writes.length] ?? "";
      writes.push(text);
      if (sent.length === writes.length) makeRoom?.();
      return text;
    },
    async readAll(): Promise<string> {
      while ((await this.read()) !== null);
      return writes.join("");
    },
    cut: relay.cut,
    async leave() {
      ended = true;
      wakeReader?.();
      relay.leave();
    },
    /** Advances the time while the client reads everything that arrives. */
    async passReading(ms: number) {
      for (let passedMs = 0; passedMs < ms; passedMs += 1_000) {
        this.pass(1_000);
        await settled();
      }
    },
    /** Advances the time, one second per tick. */
    pass(ms: number) {
      for (const until = nowMs + ms; nowMs < until; ) {
        nowMs += 1_000;
        for (const beat of [...beats]) beat(nowMs);
      }
    },
  };
}

/** Lets all pending work run that needs no further input. */
export const settled = () => Bun.sleep(0);

export function eventsIn(text: string): { types: string[]; done: number } {
  const types: string[] = [];
  let done = 0;
  const parser = createParser({
    onEvent({ data }) {
      if (data === "[DONE]") done++;
      else types.push(JSON.parse(data).type);
    },
  });
  parser.feed(text);
  return { types, done };
}
