/** What leaves a connection: no faster than its client takes it, and with an end to what it leaves unread. */

import type { FrameReceiver } from "./frame-sink.ts";

/** The connection itself. */
export interface SocketOutput {
  readonly address: string;
  /** Sent, and not taken by the client yet. */
  readonly bufferedBytes: number;
  sendText(text: string): void;
  /** A text of a few words, and then `bytes[start, end)`, which are UTF-8. */
  sendUtf8(opening: string, bytes: Uint8Array, start: number, end: number): void;
  /** What is sent meanwhile leaves in one piece. */
  cork(send: () => void): void;
  close(code: number, reason: string): void;
  terminate(): void;
}

/** A client that does not read what it is told beside its turns, and goes on asking, is cut off. */
const UNREAD_BYTES_MAX = 4 * 1024 * 1024;

export class BoundedOutput implements FrameReceiver {
  private readonly bufferedBytesMax: number;
  private wire: SocketOutput | null = null;
  private roomAgain: PromiseWithResolvers<void> | null = null;
  /** An upper bound on what the client has not read of what was sent beside the turns. */
  private unreadBytes = 0;

  constructor(bufferedBytesMax: number) {
    this.bufferedBytesMax = bufferedBytesMax;
  }

  get isOpen(): boolean {
    return this.wire !== null;
  }

  get address(): string {
    return this.wire?.address ?? "unknown";
  }

  open(wire: SocketOutput): void {
    this.wire = wire;
  }

  /** Nobody hears what is said any more, and nobody waits for room. Gives the wire back, to be closed. */
  letGo(): SocketOutput | null {
    const { wire, roomAgain } = this;
    this.wire = null;
    this.roomAgain = null;
    roomAgain?.resolve();
    return wire;
  }

  terminate(): void {
    this.wire?.terminate();
  }

  send(opening: string, bytes: Uint8Array, start: number, end: number): void {
    this.wire?.sendUtf8(opening, bytes, start, end);
  }

  sendText(text: string): void {
    this.wire?.sendText(text);
  }

  together(send: () => void): void {
    this.wire?.cork(send);
  }

  /** What is said beside the turns, which nothing holds up. */
  tell(text: string): void {
    const { wire } = this;
    if (wire === null) return;
    this.unreadBytes = Math.min(this.unreadBytes, wire.bufferedBytes);
    if (this.unreadBytes > UNREAD_BYTES_MAX) {
      wire.terminate();
      return;
    }
    this.unreadBytes += text.length;
    wire.sendText(text);
  }

  room(): Promise<void> | null {
    if (!this.isCrowded()) return null;
    this.roomAgain ??= Promise.withResolvers<void>();
    return this.roomAgain.promise;
  }

  /** The client takes again what is sent to it. */
  drained(): void {
    const { roomAgain } = this;
    if (roomAgain === null || this.isCrowded()) return;
    this.roomAgain = null;
    roomAgain.resolve();
  }

  private isCrowded(): boolean {
    return this.wire !== null && this.wire.bufferedBytes > this.bufferedBytesMax;
  }
}
