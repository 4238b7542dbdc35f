/** Work on long arrays in slices, so that one request does not hold up the others. */

import { writeBytes } from "./bytes.ts";
import { type Part, partsLength } from "./parts.ts";

/** Copying so much takes a millisecond or two, where the memory is fresh. */
const COPIED_BYTES_PER_TURN = 512 * 1024;

/** Resolves when everything else that is due in the event loop has run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Copies `from` to `to[at]` in slices, and returns where it ends. */
export async function putInTurns(to: Uint8Array, at: number, from: Uint8Array): Promise<number> {
  let end = at;
  for (let start = 0; start < from.length; start += COPIED_BYTES_PER_TURN) {
    if (start > 0) await nextTurn();
    end = writeBytes(to, end, from, start, Math.min(from.length, start + COPIED_BYTES_PER_TURN));
  }
  return end;
}

/** Counts bytes of work, and waits for the next turn after each slice. */
export class TurnBudget {
  private bytes = 0;

  /** Null while the slice lasts. */
  spend(bytes: number): Promise<void> | null {
    this.bytes += bytes;
    if (this.bytes < COPIED_BYTES_PER_TURN) return null;
    this.bytes = 0;
    return nextTurn();
  }
}

/** The same as `joinParts`, in slices. */
export async function joinPartsInTurns(parts: readonly Part[]): Promise<Uint8Array> {
  const joined = Buffer.allocUnsafeSlow(partsLength(parts));
  const budget = new TurnBudget();
  let to = 0;
  for (const { bytes, start, end } of parts) {
    for (let from = start; from < end; from += COPIED_BYTES_PER_TURN) {
      const until = Math.min(end, from + COPIED_BYTES_PER_TURN);
      to = writeBytes(joined, to, bytes, from, until);
      const turn = budget.spend(until - from);
      if (turn !== null) await turn;
    }
  }
  return joined;
}
