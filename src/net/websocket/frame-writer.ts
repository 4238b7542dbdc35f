/**
 * Frames for clients, written one behind the other into a buffer that all connections share: whatever belongs together
 * leaves in one write, and a frame costs no memory of its own.
 */

import type { SocketWriter } from "../http-server/socket-writer.ts";
import { writeBytes } from "../wire/bytes.ts";
import { HEAD_BYTES_MAX, TEXT, writeHead } from "./frames.ts";

const BUFFER_BYTES = 64 * 1024;
/** A longer payload is written from where it is. */
const COPIED_BYTES_MAX = 16 * 1024;

export class FrameWriter {
  private readonly bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  private end = 0;
  /** Whose frames are being gathered. Everybody else's leave at once. */
  private holder: SocketWriter | null = null;

  /** Until `release`, what is written for this outlet is gathered. Returns what to release it with. */
  hold(outlet: SocketWriter): SocketWriter | null {
    const { holder } = this;
    if (holder !== outlet) this.flush();
    this.holder = outlet;
    return holder;
  }

  release(before: SocketWriter | null): void {
    if (before === this.holder) return;
    this.flush();
    this.holder = before;
  }

  /** Gathered for this outlet, and not handed to it yet. */
  heldBytes(outlet: SocketWriter): number {
    return this.holder === outlet ? this.end : 0;
  }

  /** What was gathered goes nowhere. */
  drop(outlet: SocketWriter): void {
    if (this.holder === outlet) this.end = 0;
  }

  /** Hands over what was gathered. */
  flush(): void {
    const { holder, end } = this;
    if (holder === null || end === 0) return;
    this.end = 0;
    holder.write(this.bytes, 0, end);
  }

  /** A text message. */
  text(outlet: SocketWriter, text: string): void {
    const length = Buffer.byteLength(text);
    if (length > COPIED_BYTES_MAX) {
      this.utf8(outlet, "", Buffer.from(text), 0, length);
      return;
    }
    const outer = this.hold(outlet);
    const at = this.head(TEXT, length, length);
    this.end = at + this.bytes.write(text, at);
    this.release(outer);
  }

  /** A text message of these words and then `payload[start, end)`, which is UTF-8. */
  utf8(outlet: SocketWriter, opening: string, payload: Uint8Array, start: number, end: number): void {
    const outer = this.hold(outlet);
    const openingBytes = opening === "" ? 0 : Buffer.byteLength(opening);
    const isCopied = end - start <= COPIED_BYTES_MAX;
    const length = openingBytes + end - start;
    let at = this.head(TEXT, length, isCopied ? length : openingBytes);
    if (openingBytes > 0) at += this.bytes.write(opening, at);
    this.end = isCopied ? writeBytes(this.bytes, at, payload, start, end) : at;
    if (!isCopied) {
      this.flush();
      outlet.write(payload, start, end);
    }
    this.release(outer);
  }

  /** A control frame, at most 125 bytes long. */
  control(outlet: SocketWriter, opcode: number, payload: Uint8Array): void {
    const outer = this.hold(outlet);
    this.end = writeBytes(this.bytes, this.head(opcode, payload.length, payload.length), payload);
    this.release(outer);
  }

  /** Writes a head where it and `copiedBytes` behind it have room, and returns where it ends. */
  private head(opcode: number, length: number, copiedBytes: number): number {
    if (this.end + HEAD_BYTES_MAX + copiedBytes > BUFFER_BYTES) this.flush();
    return writeHead(this.bytes, this.end, opcode, length);
  }
}
