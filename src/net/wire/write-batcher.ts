/**
 * What is said in one turn of the event loop leaves at its end, one write behind the other. Whoever it is for is woken
 * once, where each write by itself would wake it from a sleep that it has just gone back to.
 */

export interface BatchedWriter {
  /** Now. The bytes are the outbox's: what is not taken at once has to be copied. */
  send(bytes: Uint8Array, from: number, to: number): void;
}

/** What is longer is not worth a copy. */
const LETTER_BYTES_MAX = 16 * 1024;
const ROOM_BYTES = 1024 * 1024;
/** After so many letters that left alone, one behind the other, so many more do not wait: the end of a turn costs, too. */
const ALONE_MAX = 3;
const UNPOSTED = 100;

export class WriteBatcher {
  readonly bytes = Buffer.allocUnsafeSlow(ROOM_BYTES);
  private readonly addressees: BatchedWriter[] = [];
  /** Where each letter ends: it begins where the one before it does. */
  private readonly ends: number[] = [];
  /** The first that has not left. */
  private next = 0;
  private isLeaving = false;
  private alone = 0;
  private unposted = 0;
  private readonly atEndOfTurn: (work: () => void) => void;
  private readonly leave = () => this.flush();

  constructor(atEndOfTurn: (work: () => void) => void) {
    this.atEndOfTurn = atEndOfTurn;
  }

  /** Where so much can be written before it is posted; -1 if it is too long for that, or had better leave at once. */
  roomFor(length: number): number {
    if (length > LETTER_BYTES_MAX) return -1;
    if (this.unposted > 0 && this.ends.length === 0) {
      this.unposted--;
      return -1;
    }
    if (this.end + length > ROOM_BYTES) this.flush();
    return this.end + length > ROOM_BYTES ? -1 : this.end;
  }

  /** What was written there, up to `to`. */
  post(addressee: BatchedWriter, to: number): void {
    if (this.ends.length === 0) this.atEndOfTurn(this.leave);
    this.addressees.push(addressee);
    this.ends.push(to);
  }

  /** At once, in the order in which they were posted. No bytes are used again before the outermost call ends. */
  flush(): void {
    const isInside = this.isLeaving;
    this.isLeaving = true;
    while (this.next < this.ends.length) {
      const i = this.next++;
      try {
        this.addressees[i]?.send(this.bytes, this.ends[i - 1] ?? 0, this.ends[i] ?? 0);
      } catch (thrown) {
        // A bug, which is to be heard of; whoever happens to empty the outbox is not to suffer for it.
        this.atEndOfTurn(() => {
          throw thrown;
        });
      }
    }
    if (!isInside) this.begin();
  }

  private begin(): void {
    this.isLeaving = false;
    this.countAlone();
    this.addressees.length = 0;
    this.ends.length = 0;
    this.next = 0;
  }

  private countAlone(): void {
    if (this.ends.length > 0) this.alone = this.ends.length === 1 ? this.alone + 1 : 0;
    if (this.alone < ALONE_MAX) return;
    this.alone = 0;
    this.unposted = UNPOSTED;
  }

  private get end(): number {
    return this.ends.at(-1) ?? 0;
  }
}

export const writeBatcher = new WriteBatcher(setImmediate);
