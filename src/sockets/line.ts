/** What leaves a connection: no faster than its client takes it, and with an end to what it leaves unread. */

import type { FrameOutlet } from "./frame-sink.ts";

/** The runtime's side of the connection. */
export interface Wire {
  readonly remoteAddress: string;
  sendText(text: string): number;
  cork(send: () => void): unknown;
  getBufferedAmount(): number;
  close(code: number, reason: string): void;
  terminate(): void;
}

/** A client that does not read what it is told beside its turns, and goes on asking, is cut off. */
const UNREAD_BYTES_MAX = 4 * 1024 * 1024;

export class Line implements FrameOutlet {
  private readonly bufferedBytesMax: number;
  private wire: Wire | null = null;
  private roomAgain: PromiseWithResolvers<void> | null = null;
  /** Something that was sent has not left at once; asking how much costs more than sending it. */
  private mayBeCrowded = false;
  /** Of what was told beside the turns, at most so much has not been read. */
  private unreadBytes = 0;

  constructor(bufferedBytesMax: number) {
    this.bufferedBytesMax = bufferedBytesMax;
  }

  get isOpen(): boolean {
    return this.wire !== null;
  }

  get address(): string {
    return this.wire?.remoteAddress ?? "unknown";
  }

  open(wire: Wire): void {
    this.wire = wire;
  }

  /** Nobody hears what is said any more, and nobody waits for room. Gives the wire back, to be closed. */
  letGo(): Wire | null {
    const { wire, roomAgain } = this;
    this.wire = null;
    this.roomAgain = null;
    roomAgain?.resolve();
    return wire;
  }

  terminate(): void {
    this.wire?.terminate();
  }

  send(text: string): void {
    const sent = this.wire?.sendText(text) ?? 0;
    if (sent < 0) this.mayBeCrowded = true;
  }

  together(send: () => void): void {
    this.wire?.cork(send);
    // What is held together is written at the end, and nobody tells how much of it.
    this.mayBeCrowded = true;
  }

  /** What is said beside the turns, which nothing holds up. */
  tell(text: string): void {
    const { wire } = this;
    if (wire === null) return;
    this.unreadBytes = Math.min(this.unreadBytes, wire.getBufferedAmount());
    if (this.unreadBytes > UNREAD_BYTES_MAX) {
      wire.terminate();
      return;
    }
    this.unreadBytes += text.length;
    this.send(text);
  }

  room(): Promise<void> | null {
    if (!this.mayBeCrowded) return null;
    this.mayBeCrowded = this.isCrowded();
    if (!this.mayBeCrowded) return null;
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
    return this.wire !== null && this.wire.getBufferedAmount() > this.bufferedBytesMax;
  }
}
