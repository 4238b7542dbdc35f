/**
 * Writes WebSocket frames to clients through one buffer that all connections share. Frames that belong together are
 * sent in one write, and a frame allocates no memory.
 */

import { writeBytes } from "../../base/bytes.ts";
import type { SocketWriter } from "../http-server/socket-writer.ts";
import { HEAD_BYTES_MAX, TEXT, writeHead } from "./frames.ts";

const BUFFER_BYTES = 64 * 1024;
/** A longer payload is written directly. */
const COPIED_BYTES_MAX = 16 * 1024;

export class FrameWriter {
  readonly #bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #end = 0;
  /** The socket writer whose frames are collected. Frames for all others are sent at once. */
  #holder: SocketWriter | null = null;

  /** Collects the frames for this socket writer until `release`. Returns the value to pass to `release`. */
  hold(target: SocketWriter): SocketWriter | null {
    const holder = this.#holder;
    if (holder !== target) this.flush();
    this.#holder = target;
    return holder;
  }

  release(previous: SocketWriter | null): void {
    if (previous === this.#holder) return;
    this.flush();
    this.#holder = previous;
  }

  /** Bytes that are collected for this socket writer and not written yet. */
  heldBytes(target: SocketWriter): number {
    return this.#holder === target ? this.#end : 0;
  }

  /** Discards the collected bytes. */
  drop(target: SocketWriter): void {
    if (this.#holder === target) this.#end = 0;
  }

  /** Writes the collected bytes. */
  flush(): void {
    const holder = this.#holder;
    const end = this.#end;
    if (holder === null || end === 0) return;
    this.#end = 0;
    holder.write(this.#bytes, 0, end);
  }

  text(target: SocketWriter, text: string): void {
    const length = Buffer.byteLength(text);
    if (length > COPIED_BYTES_MAX) {
      this.utf8(target, "", Buffer.from(text), 0, length);
      return;
    }
    const previous = this.hold(target);
    const at = this.#head(TEXT, length, length);
    this.#end = at + this.#bytes.write(text, at);
    this.release(previous);
  }

  /** Writes a text message that consists of `opening` and `payload[start, end)`, which is UTF-8. */
  utf8(target: SocketWriter, opening: string, payload: Uint8Array, start: number, end: number): void {
    const previous = this.hold(target);
    const openingBytes = opening === "" ? 0 : Buffer.byteLength(opening);
    const isCopied = end - start <= COPIED_BYTES_MAX;
    const length = openingBytes + end - start;
    let at = this.#head(TEXT, length, isCopied ? length : openingBytes);
    if (openingBytes > 0) at += this.#bytes.write(opening, at);
    this.#end = isCopied ? writeBytes(this.#bytes, at, payload, start, end) : at;
    if (!isCopied) {
      this.flush();
      target.write(payload, start, end);
    }
    this.release(previous);
  }

  /** Writes a control frame of at most 125 bytes. */
  control(target: SocketWriter, opcode: number, payload: Uint8Array): void {
    const previous = this.hold(target);
    this.#end = writeBytes(this.#bytes, this.#head(opcode, payload.length, payload.length), payload);
    this.release(previous);
  }

  /** Writes a frame head where `copiedBytes` more fit behind it, and returns its end position. */
  #head(opcode: number, length: number, copiedBytes: number): number {
    if (this.#end + HEAD_BYTES_MAX + copiedBytes > BUFFER_BYTES) this.flush();
    return writeHead(this.#bytes, this.#end, opcode, length);
  }
}
