/** Test support: a socket writer that records writes, and one on a real connection. */

import type { Socket } from "bun";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

/** Accepts everything, unless it is set to slow; then writes count as buffered. */
export class RecordingSocketWriter implements SocketWriter {
  readonly address = "127.0.0.1";
  readonly writes: Buffer[] = [];
  bufferedBytes = 0;
  isSlow = false;
  isEnded = false;
  isTerminated = false;

  write(bytes: Uint8Array, from = 0, to = bytes.length): void {
    this.writes.push(Buffer.from(bytes.subarray(from, to)));
    if (this.isSlow) this.bufferedBytes += to - from;
  }

  end(): void {
    this.isEnded = true;
  }

  terminate(): void {
    this.isTerminated = true;
  }
}

/** The protocol of a connection after its first bytes. */
export type ProtocolFactory = (outlet: SocketWriter, first: Buffer) => UpgradedProtocol;

class RealSocketWriter implements SocketWriter {
  bufferedBytes = 0;
  protocol: UpgradedProtocol | null = null;
  readonly #socket: Socket<RealSocketWriter | null>;
  #unsent: Buffer[] = [];
  #isEnding = false;

  constructor(socket: Socket<RealSocketWriter | null>) {
    this.#socket = socket;
  }

  get address(): string {
    return this.#socket.remoteAddress;
  }

  write(bytes: Uint8Array, from = 0, to = bytes.length): void {
    const sent = this.bufferedBytes === 0 ? Math.max(0, this.#socket.write(bytes, from, to - from)) : 0;
    if (sent === to - from) return;
    this.#unsent.push(Buffer.from(bytes.subarray(from + sent, to)));
    this.bufferedBytes += to - from - sent;
  }

  drain(): void {
    if (this.bufferedBytes === 0) return;
    const kept = Buffer.concat(this.#unsent);
    const sent = Math.max(0, this.#socket.write(kept));
    this.#unsent = [kept.subarray(sent)];
    this.bufferedBytes = kept.length - sent;
    if (this.bufferedBytes > 0) return;
    this.#unsent = [];
    this.protocol?.onDrain();
    if (this.#isEnding) this.#socket.end();
  }

  end(): void {
    this.#isEnding = true;
    if (this.bufferedBytes === 0) this.#socket.end();
  }

  terminate(): void {
    this.#socket.terminate();
  }
}

/** `createProtocol` creates the protocol of each connection from its first bytes. */
export function listen(createProtocol: ProtocolFactory): { port: number; stop(): void } {
  const listener = Bun.listen<RealSocketWriter | null>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = new RealSocketWriter(socket);
      },
      data(socket, bytes) {
        const writer = socket.data;
        if (writer === null) return;
        if (writer.protocol === null) writer.protocol = createProtocol(writer, bytes);
        else writer.protocol.onData(bytes);
      },
      drain: (socket) => socket.data?.drain(),
      close: (socket) => socket.data?.protocol?.onClose(),
      error() {},
    },
  });
  return { port: listener.port, stop: () => listener.stop(true) };
}
