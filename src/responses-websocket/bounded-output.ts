/** The output of a connection, with back-pressure and a limit for bytes that the client does not read. */

import type { Backpressure } from "../net/wire/body-sink.ts";
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
  readonly #bufferedBytesMax: number;
  #socket: SocketOutput | null = null;
  /** Turns that are paused until the client has read more. */
  readonly #paused = new Set<Backpressure>();
  /** Upper bound of the unread bytes that were sent outside the turns. */
  #unreadBytes = 0;

  constructor(bufferedBytesMax: number) {
    this.#bufferedBytesMax = bufferedBytesMax;
  }

  get isOpen(): boolean {
    return this.#socket !== null;
  }

  get address(): string {
    return this.#socket?.address ?? "unknown";
  }

  open(socket: SocketOutput): void {
    this.#socket = socket;
  }

  /** Detaches from the connection and resumes all paused turns. Returns the connection, to be closed. */
  detach(): SocketOutput | null {
    const socket = this.#socket;
    this.#socket = null;
    this.#resumeAll();
    return socket;
  }

  terminate(): void {
    this.#socket?.terminate();
  }

  send(opening: string, bytes: Uint8Array, start: number, end: number): void {
    this.#socket?.sendUtf8(opening, bytes, start, end);
  }

  sendText(text: string): void {
    this.#socket?.sendText(text);
  }

  batch(send: () => void): void {
    this.#socket?.cork(send);
  }

  /** Sends a message outside the turns, without back-pressure. */
  sendOutsideTurn(text: string): void {
    const wire = this.#socket;
    if (wire === null) return;
    this.#unreadBytes = Math.min(this.#unreadBytes, wire.bufferedBytes);
    if (this.#unreadBytes > UNREAD_BYTES_MAX) {
      wire.terminate();
      return;
    }
    this.#unreadBytes += text.length;
    wire.sendText(text);
  }

  pauseIfFull(source: Backpressure): void {
    if (!this.#isFull()) return;
    this.#paused.add(source);
    source.pause();
  }

  /** The client has read buffered bytes. */
  onDrain(): void {
    if (!this.#isFull()) this.#resumeAll();
  }

  #resumeAll(): void {
    const paused = [...this.#paused];
    // Before the loop, because a resumed turn may be paused again at once.
    this.#paused.clear();
    for (const source of paused) source.resume();
  }

  #isFull(): boolean {
    return this.#socket !== null && this.#socket.bufferedBytes > this.#bufferedBytesMax;
  }
}
