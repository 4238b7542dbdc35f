/** How much waits, on all connections of a key and on all there are: each holds what a client sent. */

export interface WaitingLimits {
  readonly bytesMax: number;
  readonly keyBytesMax: number;
}

export class WaitingRoom {
  private readonly limits: WaitingLimits;
  private readonly byKey = new Map<string, number>();
  private bytes = 0;

  constructor(limits: WaitingLimits) {
    this.limits = limits;
  }

  hasRoom(key: string, bytes: number): boolean {
    return this.bytes + bytes <= this.limits.bytesMax && this.of(key) + bytes <= this.limits.keyBytesMax;
  }

  enter(key: string, bytes: number): void {
    this.bytes += bytes;
    this.byKey.set(key, this.of(key) + bytes);
  }

  leave(key: string, bytes: number): void {
    this.bytes -= bytes;
    const left = this.of(key) - bytes;
    if (left > 0) this.byKey.set(key, left);
    else this.byKey.delete(key);
  }

  private of(key: string): number {
    return this.byKey.get(key) ?? 0;
  }
}
