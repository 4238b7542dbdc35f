/** Sends a streamed body piece by piece, as fast as the connection accepts it. */

import type { ClientConnectionSocket } from "./connection.ts";
import type { StreamedBody } from "./contract.ts";

export interface Upload {
  drained(): void;
  stop(): void;
}

export interface UploadEnd {
  /** The whole body was written, or `fault` is the reason why it cannot be. */
  uploaded(fault: string | null): void;
}

export function startUpload(
  head: Uint8Array,
  body: StreamedBody,
  connection: ClientConnectionSocket,
  listener: UploadEnd,
): Upload {
  let isStopped = false;
  let continueWriting: (() => void) | null = null;
  let source: { cancel(): Promise<void> } | null = null;

  async function writeAll(bytes: Uint8Array): Promise<void> {
    let at = connection.write(bytes, 0, bytes.length);
    while (at < bytes.length && !isStopped) {
      const { promise, resolve } = Promise.withResolvers<void>();
      continueWriting = resolve;
      await promise;
      if (!isStopped) at += connection.write(bytes, at, bytes.length);
    }
  }

  async function run(): Promise<void> {
    await writeAll(head);
    if (isStopped) return;
    const reader = body.open().getReader();
    source = reader;
    let total = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (isStopped) return;
      if (done) break;
      if (value.length === 0) continue;
      total += value.length;
      if (body.contentLength !== null && total > body.contentLength) throw new WrongLength();
      await writeAll(body.contentLength === null ? encodeChunk(value) : value);
      if (isStopped) return;
    }
    if (body.contentLength === null) await writeAll(Buffer.from("0\r\n\r\n"));
    else if (total !== body.contentLength) throw new WrongLength();
  }

  function stop(): void {
    if (isStopped) return;
    isStopped = true;
    continueWriting?.();
    source?.cancel().catch(() => {});
  }

  run().then(
    () => {
      if (!isStopped) listener.uploaded(null);
      isStopped = true;
    },
    (thrown) => {
      if (isStopped) return;
      stop();
      listener.uploaded(
        thrown instanceof WrongLength ? WRONG_LENGTH : "the request's body could not be read",
      );
    },
  );
  return {
    stop,
    drained() {
      const resolve = continueWriting;
      continueWriting = null;
      resolve?.();
    },
  };
}

const WRONG_LENGTH = "the request's body is not as long as announced";

class WrongLength extends Error {}

function encodeChunk(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}
