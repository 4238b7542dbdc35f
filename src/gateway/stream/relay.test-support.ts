/** Test support: an upstream, a relay and a client, with the time and both ends controlled by the test. */

import { createParser } from "eventsource-parser";
import { clientError, upstreamFailure } from "../../accounts/failure.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { openResponsesReader } from "../../protocols/responses/responses-stream.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { UpstreamStream } from "../upstream/upstream-stream.ts";
import { Relay, type RelayDelivery, type RelayTiming, type StreamEnd } from "./relay.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
/** Shared by all test files that use it, so it is never stopped. */
const deadlines = openDeadlines(1, { monotonicMs: () => performance.now() });

export const TIMING = {
  keepAliveMs: 15_000,
  silentReasoningMs: 60_000,
  idleTimeoutMs: 300_000,
  writeStallMs: 60_000,
  drainOnDisconnectMs: 60_000,
  endingDrainMs: 2_000,
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

interface RelayChanges extends Partial<RelayDelivery> {
  readonly opening?: Promise<UpstreamStream>;
  readonly timing?: RelayTiming;
}

export function openTestRelay({ opening: otherOpening, timing = TIMING, ...change }: RelayChanges = {}) {
  let nowMs = 0;
  const ticks = new Set<(nowMs: number) => void>();
  const ends: StreamEnd[] = [];
  /** What the relay wrote, and how much of it the client has read. */
  const sent: string[] = [];
  const writes: string[] = [];
  const upstreamState = { cancelled: false, paused: false };
  const early: ((to: UpstreamStream) => void)[] = [];
  let upstream: UpstreamStream | null = null;
  let over = false;
  const send = (action: (to: UpstreamStream) => void) => {
    if (over) return;
    if (upstream === null) early.push(action);
    else action(upstream);
  };
  const upstreamCall = {
    pause() {
      upstreamState.paused = true;
    },
    resume() {
      upstreamState.paused = false;
    },
    abort() {
      over = true;
      upstreamState.cancelled = true;
    },
    stopWatching() {},
  };
  const opening = new Promise<UpstreamStream>((resolve, reject) => {
    const options = {
      upstreamCall,
      reader: reader(),
      deadlines,
      eventBytesMax: 10_000,
      holdMs: 0,
      monotonicMs: () => nowMs,
      enterTurn() {},
    };
    upstream = new UpstreamStream(options, (result) => {
      if (result.kind === "open") resolve(result.stream);
      else {
        const audience = { publicModel: "fast", upstreamModel: "up", account: null, mentions: () => false };
        reject(clientError(result.failure, audience));
      }
    });
    for (const action of early) action(upstream);
  });
  opening.catch(() => {});

  let ended = false;
  let cut = false;
  let readsWaiting = 0;
  let wakeReader: (() => void) | null = null;
  const keepAliveTimer = {
    add(tick: (nowMs: number) => void) {
      ticks.add(tick);
      return () => ticks.delete(tick);
    },
  };
  const services = { clock: { monotonicMs: () => nowMs }, keepAliveTimer, timing };
  const relay = new Relay(services, otherOpening ?? opening, {
    capture: null,
    openSpareReader: reader,
    requestId: "req_1",
    onDisconnect: "cancel",
    isPaid: false,
    keepAlive: Buffer.from(KEEP_ALIVE),
    needsDataEvents: false,
    describeFailure: (failure) => new ApiError("upstream_error", failure.reason),
    settle(end) {
      ends.push(end);
      return null;
    },
    checkpoint: () => null,
    tryStartDrain: () => true,
    endDrain() {},
    closeConnection() {
      cut = true;
      wakeReader?.();
    },
    ...change,
  });
  relay.flowTo({
    data(parts) {
      sent.push(decoder.decode(joinParts(parts)));
      wakeReader?.();
      if (sent.length - writes.length > readsWaiting) relay.pause();
    },
    end(last) {
      if (last.length > 0) sent.push(decoder.decode(joinParts(last)));
      ended = true;
      wakeReader?.();
    },
    fail(thrown) {
      throw thrown;
    },
  });

  return {
    ends,
    sent,
    writes,
    beats: ticks,
    upstreamState,
    opening,
    push: (text: string) => send((to) => to.data(wholeBytesPart(utf8.encode(text)))),
    end() {
      send((to) => to.end());
      over = true;
    },
    reset() {
      send((to) => to.fail(upstreamFailure("reset", "ECONNRESET")));
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
      if (sent.length === writes.length) relay.resume();
      return text;
    },
    async readAll(): Promise<string> {
      while ((await this.read()) !== null);
      return writes.join("");
    },
    cut: () => relay.shutDown(),
    async disconnect() {
      ended = true;
      wakeReader?.();
      relay.abort();
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
        for (const beat of [...ticks]) beat(nowMs);
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
