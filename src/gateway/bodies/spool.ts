/** Bodies too large for memory: written to an unnamed file, and readable as often as needed. */

import { type FileHandle, mkdir, open, readdir, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import { type Splice, spliceParts } from "../../json/splice.ts";
import type { IncomingHttpRequest } from "../../net/wire/http-message.ts";
import type { UpstreamBody } from "../../protocols/shared/request.ts";
import type { BodyBudget, BodyOwner, BodyReservation } from "./body-budget.ts";
import { type BodyLimits, gatherChunks, pumpBody } from "./body-reader.ts";
import { aborted, type BodyRejection, noMemory, tooLarge, unsupportedEncoding } from "./body-rejection.ts";
import { parseContentEncoding, unpackTo } from "./content-encoding.ts";

export interface SpoolOptions extends BodyLimits {
  /** Bodies up to this size stay in memory. */
  memoryBytesMax: number;
  dir: string;
  budgets: SpoolBudgets;
  owner: BodyOwner;
  /** Receives every chunk before it is stored; returning false stops the reading. */
  onChunk?: (chunk: Uint8Array) => boolean;
}

/** The budgets that all clients share: memory for bodies that stay there, and disk space for the others. */
export interface SpoolBudgets {
  readonly small: BodyBudget;
  readonly disk: BodyBudget;
}

export interface SpooledBody {
  readonly ok: true;
  readonly bytes: number;
  /** The whole body, if it stayed in memory. */
  readonly memory: Uint8Array | null;
  /** Loads the whole range into memory: request small ranges. */
  slice(start: number, end: number): Promise<Uint8Array>;
  /** Releases the disk space. Open slices and streams fail. */
  dispose(): Promise<void>;
}

export type SpoolRejection =
  | BodyRejection
  /** `onChunk` stopped the reading and knows the reason. */
  | { ok: false; reason: "stopped"; message: string }
  /** The cause is for the operator's log, the message for the client. */
  | { ok: false; reason: "disk"; message: string; cause: Error };

const NAME = /^spool-[0-9a-f-]{36}$/;
const WRITE_BYTES = 1024 * 1024;
const DISK_STEP_BYTES_MIN = 8 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/** Creates the folder, and removes files of processes that died between creating and unlinking them. */
export async function sweepSpool(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const name of await readdir(dir)) {
    if (NAME.test(name)) await rm(join(dir, name), { force: true });
  }
}

export async function spoolBody(
  request: IncomingHttpRequest,
  options: SpoolOptions,
): Promise<SpooledBody | SpoolRejection> {
  const { body } = request;
  const encoding = parseContentEncoding(request.headers.get("content-encoding"));
  if (encoding === undefined) return unsupportedEncoding();
  const share = new SpoolShare(options, request);
  const store = openStore(options, share);
  const pump = (take: (chunk: Uint8Array) => boolean | Promise<boolean>) =>
    body === null ? Promise.resolve(null) : pumpBody(body, options, take);
  const storeChunk = async (chunk: Uint8Array) => {
    if (options.onChunk?.(chunk) === false) return false;
    return store.add(chunk);
  };
  try {
    const declared = encoding === null ? (body?.length ?? null) : null;
    if (declared !== null && declared > options.bytesMax) return tooLarge(options.bytesMax);
    const hasCapacity = await share.begin(declared);
    const rejection = !hasCapacity
      ? "stopped"
      : await (encoding === null ? pump(storeChunk) : unpackTo(encoding, options, pump, storeChunk));
    if (rejection === null) return await store.finish();
    await store.discard();
    return rejection === "stopped" ? (share.rejection ?? stoppedRejection()) : rejection;
  } catch (cause) {
    await store.discard();
    if (isDiskFault(cause)) return diskFault(cause);
    throw cause;
  }
}

/** The memory and disk space that one body holds. */
class SpoolShare {
  rejection: BodyRejection | null = null;
  readonly #memory: BodyReservation;
  readonly #disk: BodyReservation;
  readonly #options: SpoolOptions;

  constructor(options: SpoolOptions, client: { readonly signal: AbortSignal }) {
    this.#options = options;
    this.#memory = options.budgets.small.open(options.owner, client);
    this.#disk = options.budgets.disk.open(options.owner, client);
  }

  /** Returns false if there is no room; the same holds for the methods below. */
  async begin(declaredBytes: number | null): Promise<boolean> {
    const { memoryBytesMax } = this.#options;
    if (declaredBytes !== null && declaredBytes > memoryBytesMax && !(await this.#growDisk(declaredBytes))) {
      return false;
    }
    return this.#grow(this.#memory, Math.min(declaredBytes ?? memoryBytesMax, memoryBytesMax), "memory");
  }

  /** Reserves twice the current need, so that it does not wait at each write. */
  async growForFile(bytes: number): Promise<boolean> {
    if (bytes <= this.#disk.bytes) return true;
    return this.#growDisk(Math.min(Math.max(DISK_STEP_BYTES_MIN, 2 * bytes), this.#options.bytesMax));
  }

  endInMemory(bytes: number): void {
    this.#disk.release();
    this.#memory.shrinkTo(bytes);
  }

  endInFile(bytes: number): void {
    this.#memory.release();
    this.#disk.shrinkTo(bytes);
  }

  release(): void {
    this.#memory.release();
    this.#disk.release();
  }

  #growDisk(bytes: number): Promise<boolean> {
    return this.#grow(this.#disk, bytes, "disk");
  }

  async #grow(reservation: BodyReservation, bytes: number, of: "memory" | "disk"): Promise<boolean> {
    const result = await reservation.growTo(bytes);
    if (result === "room") return true;
    this.rejection = result === "left" ? aborted() : noMemory(reservation.budget.retryAfterSeconds(), of);
    return false;
  }
}

/** Collects bytes in memory up to the limit, then in a file. */
function openStore({ dir, memoryBytesMax }: SpoolOptions, share: SpoolShare) {
  const pendingChunks = gatherChunks();
  let writtenBytes = 0;
  let file: FileHandle | null = null;

  async function write(): Promise<FileHandle> {
    file ??= await openUnnamed(dir);
    const bytes = pendingChunks.take();
    await writeAll(file, bytes, writtenBytes);
    writtenBytes += bytes.length;
    return file;
  }

  return {
    /** Returns false if there is no room. */
    async add(chunk: Uint8Array): Promise<boolean> {
      const waitingBytes = pendingChunks.add(chunk);
      if (waitingBytes <= (file === null ? memoryBytesMax : WRITE_BYTES)) return true;
      if (!(await share.growForFile(writtenBytes + waitingBytes))) return false;
      await write();
      return true;
    },
    async finish(): Promise<SpooledBody> {
      if (file === null) {
        const memory = pendingChunks.take();
        share.endInMemory(memory.length);
        return memoryBody(memory, share);
      }
      const whole = await write();
      share.endInFile(writtenBytes);
      return fileBody(whole, writtenBytes, share);
    },
    async discard(): Promise<void> {
      share.release();
      await file?.close();
    },
  };
}

function memoryBody(memory: Uint8Array, share: SpoolShare): SpooledBody {
  return {
    ok: true,
    bytes: memory.length,
    memory,
    slice: async (start, end) => memory.subarray(start, end),
    dispose: async () => share.release(),
  };
}

function fileBody(file: FileHandle, bytes: number, share: SpoolShare): SpooledBody {
  let closing: Promise<void> | null = null;
  return {
    ok: true,
    bytes,
    memory: null,
    slice: (start, end) => readAll(file, start, Math.min(end, bytes)),
    dispose: () => {
      closing ??= file.close().finally(() => share.release());
      return closing;
    },
  };
}

/** The file is unlinked at once: a crash leaves nothing behind, and no other user can open it. */
async function openUnnamed(dir: string): Promise<FileHandle> {
  const path = join(dir, `spool-${crypto.randomUUID()}`);
  const file = await open(path, "wx+", 0o600);
  await unlink(path).catch(() => {});
  return file;
}

/** The system may write less than requested, as it does just before a disk is full. */
async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

async function readAll(file: FileHandle, start: number, end: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafeSlow(Math.max(0, end - start));
  let done = 0;
  while (done < bytes.length) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, start + done);
    if (bytesRead === 0) throw new Error("the spooled body is shorter than the written bytes");
    done += bytesRead;
  }
  return bytes;
}

/** The spooled body with a few ranges replaced. Its length is declared because some upstreams reject chunked bodies. */
export function bodyWithSplice(spooled: SpooledBody, splices: readonly Splice[]): UpstreamBody {
  if (spooled.memory !== null) return spliceParts(spooled.memory, splices);
  const pieces = buildPieces(spooled.bytes, splices);
  const contentLength = pieces.reduce((sum, piece) => sum + pieceLength(piece), 0);
  return { contentLength, open: () => openPieceStream(spooled, pieces) };
}

/** A range of the spooled bytes, or inserted bytes. */
type Piece = { start: number; end: number } | Uint8Array;

function pieceLength(piece: Piece): number {
  return piece instanceof Uint8Array ? piece.length : piece.end - piece.start;
}

function buildPieces(bytes: number, splices: readonly Splice[]): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const { start, end, insert } of splices.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    if (start < from || end < start || end > bytes)
      throw new RangeError("splices overlap or exceed the body");
    pieces.push({ start: from, end: start }, insert);
    from = end;
  }
  pieces.push({ start: from, end: bytes });
  return pieces.filter((piece) => pieceLength(piece) > 0);
}

/** Reads on demand, so that a slow upstream keeps only one chunk in memory. */
function openPieceStream(spooled: SpooledBody, pieces: readonly Piece[]): ReadableStream<Uint8Array> {
  let index = 0;
  let readTo = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const piece = pieces[index];
        if (piece === undefined) return controller.close();
        if (piece instanceof Uint8Array) {
          index++;
          return controller.enqueue(piece);
        }
        const start = Math.max(piece.start, readTo);
        readTo = Math.min(piece.end, start + READ_BYTES);
        if (readTo === piece.end) index++;
        controller.enqueue(await spooled.slice(start, readTo));
      },
    },
    { highWaterMark: 0 },
  );
}

function stoppedRejection(): SpoolRejection {
  return { ok: false, reason: "stopped", message: "The request body was not read completely." };
}

function diskFault(cause: Error): SpoolRejection {
  return {
    ok: false,
    reason: "disk",
    message: "The request body could not be stored. Try again later.",
    cause,
  };
}

function isDiskFault(cause: unknown): cause is Error {
  return cause instanceof Error && "syscall" in cause;
}
