/**
 * Reads the content of stored responses from the database. Long content is read outside the event loop, by few calls at
 * a time, and when there is memory for it: a client that requests it sends and receives a few hundred bytes.
 */

import { nextTurn } from "../../base/next-turn.ts";
import { ApiError, storeBusy } from "../../errors.ts";
import { type Db, ReadRejected } from "../../store/engine/db.ts";
import { readStoredResponses, type StoredResponseSize } from "../../store/responses/stored-responses.ts";
import { jobError } from "../../threads/job-limit-error.ts";
import type { KeySlots } from "../admission/key-limits.ts";
import type { BodyBudget, BodyOwner } from "../bodies/body-budget.ts";
import type { RecordSealer } from "./record-sealer.ts";
import type { ResponseRecord } from "./response-record.ts";

interface LoaderLimits {
  /** Content that needs more memory while it is read counts as long. */
  readonly shortBytesMax: number;
  /** Bytes at rest that one statement reads; one response may be longer. */
  readonly readBytesMax: number;
  /** Responses that one statement reads. */
  readonly readMax: number;
}

interface LoaderOptions {
  readonly db: Db;
  readonly sealer: Pick<RecordSealer, "open">;
  readonly limits: LoaderLimits;
  /** Loads of long content in progress: those of one user, or of a key without a user, and those of all. */
  readonly ownSlots: KeySlots;
  readonly allSlots: KeySlots;
  readonly budget: BodyBudget;
}

/** Several clients may wait for one load. */
const NO_CLIENT = { signal: new AbortController().signal };
const ALL = "all";

export class RecordLoader {
  readonly #options: LoaderOptions;

  constructor(options: LoaderOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the result of `use`, which receives the records in this order. Until then they count as memory. Null
   * if a record was removed meanwhile or cannot be decrypted.
   */
  async load<Result>(
    sizes: readonly StoredResponseSize[],
    owner: BodyOwner,
    use: (records: readonly ResponseRecord[]) => Result | Promise<Result>,
  ): Promise<Result | null> {
    const { db, limits } = this.#options;
    const bytes = computeLoadBytes(sizes, limits);
    if (bytes > limits.shortBytesMax) return this.#loadLong({ sizes, bytes }, owner, use);
    const records = await this.#read(db, sizes, owner);
    return records === null ? null : use(records);
  }

  async #loadLong<Result>(
    { sizes, bytes }: { readonly sizes: readonly StoredResponseSize[]; readonly bytes: number },
    owner: BodyOwner,
    use: (records: readonly ResponseRecord[]) => Result | Promise<Result>,
  ): Promise<Result | null> {
    const { db, ownSlots, allSlots, budget } = this.#options;
    const ownerId = owner.userId ?? owner.id;
    return withSlot(ownSlots, ownerId, tooManyOwnLoads, () =>
      withSlot(allSlots, ALL, tooManyLoads, async () => {
        const reservation = budget.open(owner, NO_CLIENT);
        try {
          if ((await reservation.growTo(bytes)) !== "room") throw noRoomForResponse(budget);
          const records = await this.#read(db.reports, sizes, owner).catch((error: unknown) => {
            throw error instanceof ReadRejected ? storeBusy() : jobError(error, JOB_TEXTS);
          });
          return records === null ? null : await use(records);
        } finally {
          reservation.release();
        }
      }),
    );
  }

  async #read(
    db: Db,
    sizes: readonly StoredResponseSize[],
    owner: BodyOwner,
  ): Promise<ResponseRecord[] | null> {
    const records: ResponseRecord[] = [];
    for (const ids of groupIds(sizes, this.#options.limits)) {
      if (records.length > 0) await nextTurn();
      const rows = await readStoredResponses(db, ids);
      const opened = rows === null ? null : await this.#options.sealer.open(rows, owner.userId ?? owner.id);
      if (opened === null) return null;
      for (const record of opened) records.push(record);
    }
    return records;
  }
}

/** What one statement reads is in memory twice when it moves to a thread. */
function computeLoadBytes(sizes: readonly StoredResponseSize[], { readBytesMax }: LoaderLimits): number {
  let sealed = 0;
  let longest = 0;
  let turns = 0;
  for (const { sealedBytes, turnBytes } of sizes) {
    sealed += sealedBytes;
    longest = Math.max(longest, sealedBytes);
    turns += turnBytes;
  }
  return turns + 2 * Math.min(sealed, Math.max(longest, readBytesMax));
}

/** In statements of bounded length. */
function groupIds(sizes: readonly StoredResponseSize[], limits: LoaderLimits): string[][] {
  const groups: string[][] = [];
  let group: string[] = [];
  let bytes = 0;
  for (const { id, sealedBytes } of sizes) {
    const isFull = group.length === limits.readMax || bytes + sealedBytes > limits.readBytesMax;
    if (group.length === 0 || isFull) {
      group = [];
      bytes = 0;
      groups.push(group);
    }
    group.push(id);
    bytes += sealedBytes;
  }
  return groups;
}

async function withSlot<Result>(
  slots: KeySlots,
  owner: string,
  buildError: () => ApiError,
  work: () => Promise<Result>,
): Promise<Result> {
  const slot = slots.take(owner);
  if (slot === null) throw buildError();
  await slot;
  try {
    return await work();
  } finally {
    slots.free(owner);
  }
}

const JOB_TEXTS = {
  tooLarge: "The stored response is too large to be read.",
  overloaded: "Too many long stored responses wait to be read. Try again in 1 s.",
};

function tooManyLoads(): ApiError {
  return new ApiError("server_is_overloaded", JOB_TEXTS.overloaded, { headers: { "retry-after": "1" } });
}

function tooManyOwnLoads(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "Too many calls on long stored responses of this API key or its user wait to be served. Please try again in 1s.",
    { headers: { "retry-after": "1" } },
  );
}

export function noRoomForResponse(budget: Pick<BodyBudget, "retryAfterSeconds">): ApiError {
  const seconds = budget.retryAfterSeconds();
  return new ApiError(
    "no_room_for_body",
    `The memory for long stored responses is full. Try again in ${seconds} s.`,
    { headers: { "retry-after": String(seconds) } },
  );
}
