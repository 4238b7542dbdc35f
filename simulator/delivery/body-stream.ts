/** Streams wire operations as a response body. */

import type { Frame } from "../reply.ts";
import type { WireOp } from "./wire.ts";

const END: IteratorResult<WireOp> = { done: true, value: undefined };

export interface StreamWatcher {
  sent(frame: Frame): void;
  /** Called once, with the kind of end. */
  ended(how: "finished" | "broken" | "aborted"): void;
}

/**
 * Writes one event at a time. Bun joins everything that is enqueued in one turn of the event loop into one write, so
 * each event waits for the next turn or for its interval. The stream is pull-based: nothing is written while the
 * reader does not read.
 */
export function bodyStream(
  ops: Iterator<WireOp>,
  intervalMs: number,
  watcher: StreamWatcher,
): ReadableStream<Uint8Array> {
  let isFirst = true;
  let isOver = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const end = (how: "finished" | "broken" | "aborted"): void => {
    if (isOver) return;
    isOver = true;
    watcher.ended(how);
  };

  const step = (controller: ReadableStreamDefaultController<Uint8Array>, done: () => void): void => {
    const next = isOver ? END : ops.next();
    const op: WireOp | "end" = next.done === true ? "end" : next.value;
    if (op === "end") {
      if (!isOver) controller.close();
      end("finished");
    } else if (op.kind === "bytes") {
      controller.enqueue(op.bytes);
      if (op.frame !== null) watcher.sent(op.frame);
    } else if (op.kind === "close") {
      end("broken");
      controller.close();
    } else if (op.kind === "reset") {
      end("broken");
      // Without a reason, Bun resets the connection and logs nothing.
      controller.error();
    } else {
      if (op.kind === "wait") timer = setTimeout(step, op.ms, controller, done);
      return;
    }
    done();
  };

  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        return new Promise<void>((done) => {
          if (isFirst) {
            isFirst = false;
            step(controller, done);
          } else if (intervalMs > 0) timer = setTimeout(step, intervalMs, controller, done);
          else setImmediate(step, controller, done);
        });
      },
      cancel() {
        clearTimeout(timer);
        end("aborted");
      },
    },
    { highWaterMark: 0 },
  );
}
