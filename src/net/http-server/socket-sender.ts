/** Writes to a socket what it accepts, and buffers the rest until it accepts more. */

import { type BatchedWriter, writeBatcher } from "../wire/write-batcher.ts";

/** Bytes that the socket has not accepted yet. */
interface Unsent {
  bytes: Uint8Array;
  readonly isShared: boolean;
}

interface WritableSocket {
  /** Returns the number of accepted bytes, or less than 0 when the socket is closed. */
  write(bytes: Uint8Array, from?: number, length?: number): number;
}

export class SocketSender implements BatchedWriter {
  /** Buffered bytes, because the client reads slowly. */
  bytes = 0;
  /** Bytes in the write batcher. Later writes must follow them. */
  batchedBytes = 0;
  #isOver = false;
  readonly #socket: WritableSocket;
  /** The part of `bytes` whose memory is shared with other connections. */
  sharedBytes = 0;
  #unsent: Unsent[] | null = null;

  constructor(socket: WritableSocket) {
    this.#socket = socket;
  }

  /** Sends this range of the write batcher's buffer at the end of the turn. */
  batch(from: number, to: number): void {
    this.batchedBytes += to - from;
    writeBatcher.add(this, to);
  }

  /** Called by the write batcher. */
  send(bytes: Uint8Array, from: number, to: number): void {
    this.batchedBytes -= to - from;
    if (!this.#isOver) this.#writeOrBuffer(bytes, from, to, false);
  }

  /** Sends batched bytes now instead of at the end of the turn. */
  flushBatched(): void {
    if (this.batchedBytes > 0) writeBatcher.flush();
  }

  /** Returns true when buffering starts. That includes a closed socket, which reports its close soon. */
  write(bytes: Uint8Array, from: number, to: number, isShared = false): boolean {
    this.flushBatched();
    const wasBuffering = this.bytes > 0;
    this.#writeOrBuffer(bytes, from, to, isShared);
    return this.bytes > 0 && !wasBuffering;
  }

  /** New bytes never overtake buffered ones. Shared bytes never change, so their rest is not copied. */
  #writeOrBuffer(bytes: Uint8Array, from: number, to: number, isShared: boolean): void {
    let accepted = 0;
    if (this.bytes === 0) {
      accepted = Math.max(0, this.#socket.write(bytes, from, to - from));
      if (accepted === to - from) return;
    }
    const rest = isShared
      ? bytes.subarray(from + accepted, to)
      : Buffer.copyBytesFrom(bytes, from + accepted, to - from - accepted);
    this.#unsent ??= [];
    this.#unsent.push({ bytes: rest, isShared });
    this.bytes += rest.length;
    if (isShared) this.sharedBytes += rest.length;
  }

  /** The socket accepts more. Returns true when the buffer is empty. */
  flush(): boolean {
    const unsent = this.#unsent ?? [];
    for (let first = unsent[0]; first !== undefined; first = unsent[0]) {
      const accepted = this.#socket.write(first.bytes);
      if (accepted < 0) return false;
      this.bytes -= accepted;
      if (first.isShared) this.sharedBytes -= accepted;
      if (accepted < first.bytes.length) {
        first.bytes = first.bytes.subarray(accepted);
        return false;
      }
      unsent.shift();
    }
    this.#unsent = null;
    return true;
  }

  /** The connection is closed: discards all buffered bytes. */
  drop(): void {
    this.#isOver = true;
    this.#unsent = null;
    this.bytes = 0;
    this.sharedBytes = 0;
  }
}
