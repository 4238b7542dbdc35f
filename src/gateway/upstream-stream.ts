/**
 * One upstream stream, opened and then pulled. Opening waits for the first content, holding life-cycle
 * events back: until then the client has nothing and another account may take over.
 */

import type { StreamReader } from "../interfaces/stream.ts";
import { classifyError, failed, type UpstreamFailure } from "../upstreams/failure.ts";
import { openEventFlow } from "./event-flow.ts";

export type Pulled =
  | { kind: "bytes"; bytes: Uint8Array }
  /** The stream is complete; `bytes` is what is left to write, terminal event included. */
  | { kind: "end"; bytes: Uint8Array; terminal: Uint8Array }
  | { kind: "broken"; bytes: Uint8Array; failure: UpstreamFailure };

export interface UpstreamStream {
  readonly reader: StreamReader;
  /** Resolves with something to write or with the end; never with nothing. */
  pull(): Promise<Pulled>;
  /** When the last data event came. Comments do not count. */
  lastDataMs(): number;
  /** After the end: until the upstream has closed its side too, a moment later; null when it has. */
  closing(): Promise<void> | null;
  /** Ends the upstream's work; a pull under way then reports `broken` with this failure. */
  abort(failure: UpstreamFailure): void;
}

export interface UpstreamStreamOptions {
  body: ReadableStream<Uint8Array>;
  reader: StreamReader;
  abort(): void;
  eventBytesMax: number;
  /** Life-cycle events are held back no longer than this. */
  holdMs: number;
  monotonicMs(): number;
}

const NOTHING = new Uint8Array(0);
const LINGER_MS = 2_000;
const LINGER_CHUNKS_MAX = 16;

/** Either a stream that has something to say, or the reason why there will be none. */
export async function openUpstreamStream(
  options: UpstreamStreamOptions,
): Promise<{ kind: "open"; stream: UpstreamStream } | { kind: "failed"; failure: UpstreamFailure }> {
  const { reader, monotonicMs } = options;
  const flow = openEventFlow(reader, options.eventBytesMax);
  const source = options.body.getReader();
  let lastDataMs = monotonicMs();
  let abortedBy: UpstreamFailure | null = null;
  let pending: Promise<Chunk> | null = null;
  let lingering: Promise<void> | null = null;

  function readChunk(): Promise<Chunk> {
    pending ??= readNow();
    return pending;
  }

  function stop(): void {
    options.abort();
    source.cancel().catch(() => {});
  }

  /** An answer that is complete is read to its end, so that its connection can carry the next request. */
  async function linger(): Promise<void> {
    const giveUp = setTimeout(stop, LINGER_MS);
    for (let chunks = 0; chunks < LINGER_CHUNKS_MAX; chunks++) {
      const chunk = await readChunk();
      pending = null;
      if (typeof chunk === "string") {
        clearTimeout(giveUp);
        return;
      }
    }
    clearTimeout(giveUp);
    stop();
  }

  /** One chunk's worth of progress; null when it brought nothing to write. */
  function digest(chunk: Chunk): (Pulled & { hasContent: boolean }) | null {
    pending = null;
    if (abortedBy) return { kind: "broken", bytes: NOTHING, failure: abortedBy, hasContent: false };
    if (chunk === "ended" || chunk === "reset") return { ...ending(chunk), hasContent: false };
    const step = flow.take(chunk);
    if (step.dataEvents > 0) lastDataMs = monotonicMs();
    if (step.failed !== null || step.tooLarge) {
      stop();
      const failure = step.tooLarge
        ? failed("bad_answer", "an event was larger than allowed")
        : classifyError(200, step.failed, null);
      return { kind: "broken", bytes: step.bytes, failure, hasContent: step.hasContent };
    }
    if (step.terminal !== null) {
      // Chat ends with the mark itself; other families may want one after their terminal event.
      const terminal = withDone(step.terminal, reader.done);
      lingering = linger();
      return { kind: "end", bytes: step.bytes, terminal, hasContent: step.hasContent };
    }
    if (step.bytes.length === 0) return null;
    return { kind: "bytes", bytes: step.bytes, hasContent: step.hasContent };
  }

  function ending(how: "ended" | "reset"): Pulled {
    if (reader.saidEverything()) return { kind: "end", bytes: NOTHING, terminal: reader.done ?? NOTHING };
    return {
      kind: "broken",
      bytes: NOTHING,
      failure: failed("reset", how === "ended" ? "the stream ended early" : "the connection broke"),
    };
  }

  const stream: UpstreamStream = {
    reader,
    lastDataMs: () => lastDataMs,
    closing: () => lingering,
    abort(failure) {
      abortedBy ??= failure;
      stop();
    },
    pull() {
      if (opening !== null) {
        const first = opening;
        opening = null;
        return Promise.resolve(first);
      }
      // A client that leaves may have a pull under way: whoever reads on shares it.
      if (pulling === null) pulling = next();
      return pulling;
    },
  };
  let pulling: Promise<Pulled> | null = null;

  /** Once for every chunk of every stream, hence without a promise more than it takes. */
  async function next(): Promise<Pulled> {
    try {
      for (;;) {
        const progress = digest(await (pending ?? readNow()));
        if (progress !== null) return progress;
      }
    } finally {
      pulling = null;
    }
  }

  async function readNow(): Promise<Chunk> {
    try {
      const { done, value } = await source.read();
      return done ? "ended" : value;
    } catch {
      return "reset";
    }
  }

  let opening: Pulled | null = null;
  const held: Uint8Array[] = [];
  const hold = lateAfter(options.holdMs);
  for (;;) {
    const chunk = await Promise.race([readChunk(), hold.late]);
    if (chunk === "late") break;
    const progress = digest(chunk);
    if (progress === null) continue;
    // Broken before any content: nothing was delivered, so it is as if it had failed at once.
    if (progress.kind === "broken" && !progress.hasContent) {
      hold.clear();
      return { kind: "failed", failure: progress.failure };
    }
    // It came to its end, and there was nothing in it: a refusal in disguise, which another account need not share.
    if (progress.kind === "end" && !progress.hasContent && reader.usage?.outputTokens === 0) {
      hold.clear();
      return { kind: "failed", failure: failed("bad_answer", "an empty answer") };
    }
    held.push(progress.bytes);
    if (progress.kind !== "bytes" || progress.hasContent) {
      hold.clear();
      opening = { ...progress, bytes: Buffer.concat(held) };
      return { kind: "open", stream };
    }
  }
  if (held.length > 0) opening = { kind: "bytes", bytes: Buffer.concat(held) };
  return { kind: "open", stream };
}

type Chunk = Uint8Array | "ended" | "reset";

function withDone(terminal: Uint8Array, done: Uint8Array | null): Uint8Array {
  return done === null || terminal === done ? terminal : Buffer.concat([terminal, done]);
}

function lateAfter(ms: number): { late: Promise<"late">; clear(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), ms);
  });
  return { late, clear: () => clearTimeout(timer) };
}
