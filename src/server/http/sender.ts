/** Writes to a socket what it takes, and keeps the rest until it takes more. */

interface Sink {
  /** How many bytes were taken; less than 0 when it is closed. */
  write(bytes: Uint8Array, from?: number, length?: number): number;
}

export class Sender {
  /** Kept because the client takes it slowly. */
  bytes = 0;
  private readonly socket: Sink;
  private unsent: Uint8Array[] | null = null;
  private roomAgain: PromiseWithResolvers<void> | null = null;

  constructor(socket: Sink) {
    this.socket = socket;
  }

  /** False when something had to be kept: also for a socket that is closed, which says so soon. Nobody runs ahead of it. */
  write(bytes: Uint8Array, from: number, to: number): boolean {
    let taken = 0;
    if (this.bytes === 0) {
      taken = Math.max(0, this.socket.write(bytes, from, to - from));
      if (taken === to - from) return true;
    }
    const rest = Buffer.copyBytesFrom(bytes, from + taken, to - from - taken);
    if (this.unsent === null) this.unsent = [rest];
    else this.unsent.push(rest);
    this.bytes += rest.length;
    return false;
  }

  /** The socket takes more. True when nothing is left. */
  flush(): boolean {
    const unsent = this.unsent ?? [];
    for (let first = unsent[0]; first !== undefined; first = unsent[0]) {
      const taken = this.socket.write(first);
      if (taken < 0) return false;
      this.bytes -= taken;
      if (taken < first.length) {
        unsent[0] = first.subarray(taken);
        return false;
      }
      unsent.shift();
    }
    this.unsent = null;
    this.wake();
    return true;
  }

  /** Resolves when nothing is left, or nobody takes it any more. */
  room(): Promise<void> {
    this.roomAgain ??= Promise.withResolvers<void>();
    return this.roomAgain.promise;
  }

  /** Nobody takes anything any more. */
  drop(): void {
    this.unsent = null;
    this.bytes = 0;
    this.wake();
  }

  private wake(): void {
    const { roomAgain } = this;
    this.roomAgain = null;
    roomAgain?.resolve();
  }
}
