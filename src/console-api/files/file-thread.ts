/**
 * Executes operations on files in a thread, from reading the text to writing the changes: a file of 10,000 keys would hold
 * the event loop for seconds. One file is processed at a time, within limits of CPU time and memory, because short texts
 * exist that take gigabytes. Ending the thread rolls its transaction back.
 */

import {
  type Installation,
  type InstallationSource,
  isInMemory,
} from "../../config/installation/installation.ts";
import type { ChangeAuthor } from "../../config/plan/apply.ts";
import { ThreadPool, type ThreadPoolLimits } from "../../threads/thread-pool.ts";
import type { FileOperation } from "./file-operations.ts";

export interface FileJob {
  readonly source: InstallationSource;
  readonly operation: FileOperation;
  readonly author: ChangeAuthor;
}

/** For shorter texts, starting the thread takes longer. */
const SHORT_CHARS_MAX = 1_000;

const TEXTS = {
  tooLarge:
    "The file takes too much memory or time to be read. Write shorter texts and lists, or apply it in parts.",
  overloaded: "Other files are being read. Try again later.",
};

interface FileThreadOptions {
  readonly installation: Installation;
  readonly limits: ThreadPoolLimits;
}

export class FileThread {
  readonly #installation: Installation;
  readonly #pool: ThreadPool<FileJob, Uint8Array<ArrayBuffer>>;

  constructor({ installation, limits }: FileThreadOptions) {
    this.#installation = installation;
    const { monotonicMs } = installation.clock;
    this.#pool = new ThreadPool({
      limits,
      startWorker: () => new Worker(new URL("./file-worker.ts", import.meta.url).href),
      monotonicMs,
    });
  }

  /** Operations of one author take turns with those of others. Rejects with the error for the client. */
  async run(operation: FileOperation, author: ChangeAuthor): Promise<Response> {
    const { settings, environmentKey } = this.#installation;
    const { text } = operation;
    if (isShort(text) || isInMemory(settings)) {
      // Loaded with the first call, as the console API itself.
      const { runFileOperation } = await import("./file-operations.ts");
      return Response.json(await runFileOperation(this.#installation, operation, author));
    }
    const job: FileJob = { source: { settings, environmentKey }, operation, author };
    const owner = author.actor.id ?? "";
    const open = async () => ({ job, transfer: [] });
    const body = await this.#pool.runForClient({ owner, bytes: text.length, open }, TEXTS);
    return new Response(body, { headers: { "content-type": "application/json" } });
  }

  close(): void {
    this.#pool.close();
  }
}

/** An alias can repeat most of a short text a hundred times. */
function isShort(text: string): boolean {
  return text.length <= SHORT_CHARS_MAX && !text.includes("*");
}
