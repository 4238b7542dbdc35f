/** Splits work on long arrays into slices, so that one request does not block the event loop for the others. */

import { writeBytes } from "./bytes.ts";
import { type Part, partsLength } from "./parts.ts";

/** Copying this many bytes into fresh memory takes one or two milliseconds. */
const COPIED_BYTES_PER_TURN = 512 * 1024;

/** Resolves after all other work that is due in the event loop has run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Copies `from` to `to[at]` in slices and returns the end position. */
export async function copyInTurns(to: Uint8Array, at: number, from: Uint8Array): Promise<number> {
  let end = at;
  for (let start = 0; start < from.length; start += COPIED_BYTES_PER_TURN) {
    if (start > 0) await nextTurn();
    end = writeBytes(to, end, from, start, Math.min(from.length, start + COPIED_BYTES_PER_TURN));
  }
  return end;
}

/** Counts bytes of work and yields to the event loop after each slice. */
export class TurnBudget {
  #bytes = 0;

  /** Returns null while the current slice has budget left. */
  spend(bytes: number): Promise<void> | null {
    this.#bytes += bytes;
    if (this.#bytes < COPIED_BYTES_PER_TURN) return null;
    this.#bytes = 0;
    return nextTurn();
  }
}

/** Like `joinParts`, in slices. */
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
