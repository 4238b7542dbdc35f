/** The output of a connection, with back-pressure and a limit for bytes that the client does not read. */

import type { FrameReceiver } from "./frame-sink.ts";

/** The connection itself. */
export interface SocketOutput {
  readonly address: string;
  /** Bytes that were sent and not read by the client. */
  readonly bufferedBytes: number;
  sendText(text: string): void;
  /** Sends a text that consists of `opening` and `bytes[start, end)`, which is UTF-8. */
  sendUtf8(opening: string, bytes: Uint8Array, start: number, end: number): void;
  /** Everything that is sent during the call leaves in one write. */
  cork(send: () => void): void;
  close(code: number, reason: string): void;
  terminate(): void;
}

/** A client that sends messages without reading the replies outside its turns is disconnected above this limit. */
const UNREAD_BYTES_MAX = 4 * 1024 * 1024;

export class BoundedOutput implements FrameReceiver {
  private readonly bufferedBytesMax: number;
  private wire: SocketOutput | null = null;
  private roomAgain: PromiseWithResolvers<void> | null = null;
  /** Upper bound of the unread bytes that were sent outside the turns. */
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

  open(socket: SocketOutput): void {
    this.wire = socket;
  }

  /** Detaches from the connection and wakes all waiting senders. Returns the connection, to be closed. */
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

  /** Sends a message outside the turns, without back-pressure. */
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

  /** The client has read buffered bytes. */
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
