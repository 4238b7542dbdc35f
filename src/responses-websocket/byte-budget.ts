/** Limits the bytes of clients that are held in memory, per key and in total. */

export interface ByteLimits {
  readonly bytesMax: number;
  readonly keyBytesMax: number;
}

export class ByteBudget {
  private readonly limits: ByteLimits;
  private readonly byKey = new Map<string, number>();
  private bytes = 0;

  constructor(limits: ByteLimits) {
    this.limits = limits;
  }

  hasRoom(key: string, bytes: number): boolean {
    return this.bytes + bytes <= this.limits.bytesMax && this.of(key) + bytes <= this.limits.keyBytesMax;
  }

  take(key: string, bytes: number): void {
    this.bytes += bytes;
    this.byKey.set(key, this.of(key) + bytes);
  }

  giveBack(key: string, bytes: number): void {
    this.bytes -= bytes;
    const left = this.of(key) - bytes;
    if (left > 0) this.byKey.set(key, left);
    else this.byKey.delete(key);
  }

  private of(key: string): number {
    return this.byKey.get(key) ?? 0;
  }
}
