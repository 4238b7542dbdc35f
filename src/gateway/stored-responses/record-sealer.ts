/**
 * Seals and opens the content of stored responses. What would hold the event loop is sealed and opened in threads; it is
 * compressed outside the event loop in any case.
 */

import type { Keyring } from "../../secrets/keyring.ts";
import { computeSealedLength, seal, storedResponseBinding } from "../../secrets/seal.ts";
import type { NewStoredResponse, StoredResponseRow } from "../../store/responses/stored-responses.ts";
import type { PoolJob } from "../../threads/pool-thread.ts";
import { ThreadPool, type ThreadPoolLimits } from "../../threads/thread-pool.ts";
import { buildRecord, buildRow, openTurn, type ResponseRecord, type SealedTurn } from "./response-record.ts";

/** The key that seals stored responses never changes. */
export interface ContentKey {
  readonly kid: string;
  readonly bytes: Uint8Array;
}

export type RecordJob =
  | {
      readonly kind: "seal";
      readonly key: ContentKey;
      readonly binding: string;
      readonly content: Uint8Array<ArrayBuffer>;
    }
  | { readonly kind: "open"; readonly key: ContentKey; readonly rows: readonly SealedTurn[] };

export type RecordJobResult =
  | { readonly kind: "seal"; readonly sealed: string }
  /** Null for content that cannot be decrypted. */
  | { readonly kind: "open"; readonly turns: readonly (Uint8Array<ArrayBuffer> | null)[] };

export interface RecordThreadLimits extends ThreadPoolLimits {
  /** Longer content is sealed and opened in a thread. */
  readonly inlineBytesMax: number;
  /** One of two threads takes only jobs up to this size. */
  readonly shortJobBytesMax: number;
}

interface RecordSealerOptions {
  readonly keyring: Keyring;
  readonly limits: RecordThreadLimits;
  monotonicMs(): number;
}

export class RecordSealer {
  readonly #keyring: Keyring;
  readonly #inlineBytesMax: number;
  readonly #pool: ThreadPool<RecordJob, RecordJobResult>;

  constructor({ keyring, limits, monotonicMs }: RecordSealerOptions) {
    this.#keyring = keyring;
    this.#inlineBytesMax = limits.inlineBytesMax;
    this.#pool = new ThreadPool({
      shortJobBytesMax: limits.shortJobBytesMax,
      limits,
      startWorker: () => new Worker(new URL("./record-worker.ts", import.meta.url).href),
      monotonicMs,
    });
  }

  /** Null if the sealed content would be longer than `bytesMax`. */
  async seal(record: ResponseRecord, bytesMax: number): Promise<NewStoredResponse | null> {
    const packed = await Bun.zstdCompress(record.turn);
    if (computeSealedLength(this.#keyring, packed.length) > bytesMax) return null;
    const binding = storedResponseBinding(record.keyId, record.responseId);
    if (packed.length <= this.#inlineBytesMax) return buildRow(record, seal(this.#keyring, binding, packed));
    const content = ownBuffer(packed);
    const key = this.#contentKey();
    const { sealed } = await this.#run("seal", {
      owner: record.owner,
      bytes: content.length,
      open: async () => ({ job: { kind: "seal", key, binding, content }, transfer: [content.buffer] }),
    });
    return buildRow(record, sealed);
  }

  /** Null if the content of one of them cannot be decrypted. Rejects with a `JobLimitError` if too many wait. */
  async open(rows: readonly StoredResponseRow[], owner: string): Promise<ResponseRecord[] | null> {
    const bytes = rows.reduce((sum, { sealed }) => sum + sealed.length, 0);
    const turns =
      bytes <= this.#inlineBytesMax
        ? rows.map((row) => openTurn(this.#keyring, row))
        : await this.#openInThread(rows, { owner, bytes });
    const records: ResponseRecord[] = [];
    for (const [at, row] of rows.entries()) {
      const turn = turns[at] ?? null;
      if (turn === null) return null;
      records.push(buildRecord(row, turn));
    }
    return records;
  }

  close(): void {
    this.#pool.close();
  }

  async #openInThread(
    rows: readonly StoredResponseRow[],
    { owner, bytes }: Pick<PoolJob<RecordJob>, "owner" | "bytes">,
  ): Promise<readonly (Uint8Array | null)[]> {
    const sealedTurns = rows.map(({ id, keyId, sealed }) => ({ id, keyId, sealed }));
    const job: RecordJob = { kind: "open", key: this.#contentKey(), rows: sealedTurns };
    const { turns } = await this.#run("open", { owner, bytes, open: async () => ({ job, transfer: [] }) });
    return turns;
  }

  async #run<Kind extends RecordJobResult["kind"]>(
    kind: Kind,
    job: PoolJob<RecordJob>,
  ): Promise<Extract<RecordJobResult, { readonly kind: Kind }>> {
    const result = await this.#pool.run(job);
    if (result.kind !== kind) throw new Error(`expected the result of a job of the kind ${kind}`);
    return result as Extract<RecordJobResult, { readonly kind: Kind }>;
  }

  #contentKey(): ContentKey {
    const kid = this.#keyring.activeKid;
    const bytes = this.#keyring.get(kid);
    if (bytes === null) throw new Error("the key of stored responses is missing");
    return { kid, bytes };
  }
}

/** A short array may be a part of a buffer that is shared, and a shared buffer must not move. */
export function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  const isOwn = buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length;
  return new Uint8Array(isOwn ? buffer : bytes);
}
