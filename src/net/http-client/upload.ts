/** Sends a streamed body piece by piece, as fast as the connection accepts it. */

import type { ClientConnectionSocket } from "./connection.ts";
import type { StreamedBody } from "./contract.ts";

interface UploadEnd {
  /** The whole body was written, or `fault` is the reason why it cannot be. */
  onUploadEnd(fault: string | null): void;
}

interface UploadOptions {
  /** The request head, which is sent before the body. */
  readonly head: Uint8Array;
  readonly body: StreamedBody;
  readonly connection: ClientConnectionSocket;
  readonly listener: UploadEnd;
}

const LAST_CHUNK = Buffer.from("0\r\n\r\n");
const WRONG_LENGTH = "the length of the request body differs from Content-Length";

class WrongLength extends Error {}

export class Upload {
  readonly #head: Uint8Array;
  readonly #body: StreamedBody;
  readonly #connection: ClientConnectionSocket;
  readonly #listener: UploadEnd;
  /** The listener was notified, or the exchange stopped the upload. */
  #isOver = false;
  /** Set while the connection accepts no bytes. */
  #continueWriting: (() => void) | null = null;
  #source: { cancel(): Promise<void> } | null = null;

  constructor({ head, body, connection, listener }: UploadOptions) {
    this.#head = head;
    this.#body = body;
    this.#connection = connection;
    this.#listener = listener;
  }

  start(): void {
    this.#run().then(
      () => this.#end(null),
      (thrown) =>
        this.#end(thrown instanceof WrongLength ? WRONG_LENGTH : "the request body could not be read"),
    );
  }

  onDrain(): void {
    const resolve = this.#continueWriting;
    this.#continueWriting = null;
    resolve?.();
  }

  /** Ends the upload without notifying the listener. */
  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.onDrain();
    this.#source?.cancel().catch(() => {});
  }

  async #run(): Promise<void> {
    await this.#write(this.#head);
    if (this.#isOver) return;
    const { contentLength } = this.#body;
    const reader = this.#body.open().getReader();
    this.#source = reader;
    let bodyBytes = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (this.#isOver) return;
      if (done) break;
      if (value.length === 0) continue;
      bodyBytes += value.length;
      if (contentLength !== null && bodyBytes > contentLength) throw new WrongLength();
      await this.#write(contentLength === null ? encodeChunk(value) : value);
      if (this.#isOver) return;
    }
    if (contentLength === null) await this.#write(LAST_CHUNK);
    else if (bodyBytes !== contentLength) throw new WrongLength();
  }

  /** Resolves when the connection has accepted all bytes, or when the upload is over. */
  async #write(bytes: Uint8Array): Promise<void> {
    let written = this.#connection.write(bytes, 0, bytes.length);
    while (written < bytes.length && !this.#isOver) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#continueWriting = resolve;
      await promise;
      if (!this.#isOver) written += this.#connection.write(bytes, written, bytes.length);
    }
  }

  #end(fault: string | null): void {
    if (this.#isOver) return;
    if (fault === null) this.#isOver = true;
    else this.stop();
    this.#listener.onUploadEnd(fault);
  }
}

function encodeChunk(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}
