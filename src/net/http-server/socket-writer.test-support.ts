/** Test support: a socket writer that records writes, and one on a real connection. */

import type { Socket } from "bun";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

/** Accepts everything, unless it is set to slow; then writes count as buffered. */
export class NotingOutlet implements SocketWriter {
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
export type Greet = (outlet: SocketWriter, first: Buffer) => UpgradedProtocol;

class RealOutlet implements SocketWriter {
  bufferedBytes = 0;
  protocol: UpgradedProtocol | null = null;
  private readonly socket: Socket<RealOutlet | null>;
  private unsent: Buffer[] = [];
  private isEnding = false;

  constructor(socket: Socket<RealOutlet | null>) {
    this.socket = socket;
  }

  get address(): string {
    return this.socket.remoteAddress;
  }

  write(bytes: Uint8Array, from = 0, to = bytes.length): void {
    const sent = this.bufferedBytes === 0 ? Math.max(0, this.socket.write(bytes, from, to - from)) : 0;
    if (sent === to - from) return;
    this.unsent.push(Buffer.from(bytes.subarray(from + sent, to)));
    this.bufferedBytes += to - from - sent;
  }

  drain(): void {
    if (this.bufferedBytes === 0) return;
    const kept = Buffer.concat(this.unsent);
    const sent = Math.max(0, this.socket.write(kept));
    this.unsent = [kept.subarray(sent)];
    this.bufferedBytes = kept.length - sent;
    if (this.bufferedBytes > 0) return;
    this.unsent = [];
    this.protocol?.drained();
    if (this.isEnding) this.socket.end();
  }

  end(): void {
    this.isEnding = true;
    if (this.bufferedBytes === 0) this.socket.end();
  }

  terminate(): void {
    this.socket.terminate();
  }
}

/** `greet` creates the protocol of each connection from its first bytes. */
export function listen(greet: Greet): { port: number; stop(): void } {
  const listener = Bun.listen<RealOutlet | null>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = new RealOutlet(socket);
      },
      data(socket, bytes) {
        const outlet = socket.data;
        if (outlet === null) return;
        if (outlet.protocol === null) outlet.protocol = greet(outlet, bytes);
        else outlet.protocol.received(bytes);
      },
      drain: (socket) => socket.data?.drain(),
      close: (socket) => socket.data?.protocol?.closed(),
      error() {},
    },
  });
  return { port: listener.port, stop: () => listener.stop(true) };
}
