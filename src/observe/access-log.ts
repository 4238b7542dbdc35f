/**
 * The access log: one JSON line a request on standard output. Lines are written together, and a reader that does not
 * keep up loses lines instead of costing memory.
 */

import { redactSecrets } from "./log.ts";

export const ACCESS_LOG_MODES = ["off", "on", "sample"] as const;
export type AccessLogMode = (typeof ACCESS_LOG_MODES)[number];

export interface AccessLogOptions {
  /** In every line: the number of the process, if there are several. */
  readonly constants: Readonly<Record<string, number>>;
  /** The share of requests that are logged. Requests that failed are always logged. */
  readonly ratio: number;
  /** Writes the text and calls back when it has been passed on. */
  readonly write: (text: string, onWritten: () => void) => void;
  readonly random: () => number;
  /** How long a line may wait to be written with others. */
  readonly delayMs: number;
  /** A longer text is written at once. */
  readonly batchCharsMax: number;
  /** What may wait for the reader. More lines are dropped. */
  readonly pendingCharsMax: number;
}

/** Allow-listed fields: no content, no credential. */
export interface AccessRecord {
  readonly time: string;
  readonly event: "request";
  readonly request_id: string;
  readonly trace_id?: string;
  readonly key: string;
  readonly user_id: string | null;
  readonly group: string;
  readonly endpoint: string;
  /** Null for a model that is not published: its name is text of the client. */
  readonly model: string | null;
  readonly upstream_model: string | null;
  readonly account: string | null;
  readonly stream: boolean;
  readonly status: number;
  readonly code: string | null;
  readonly outcome: string;
  readonly attempts: number;
  readonly wait_ms: number;
  readonly first_byte_ms: number | null;
  readonly first_content_ms: number | null;
  readonly duration_ms: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly cache_write_tokens: number;
  readonly output_tokens: number;
  readonly reasoning_tokens: number;
  readonly images: number;
  readonly cost_usd: string;
  readonly charged_usd: string;
  readonly request_bytes: number | null;
  readonly client: string | null;
}

const CLIENT_CHARS_MAX = 200;

export class AccessLog {
  readonly #options: AccessLogOptions;
  #lines = "";
  #pendingChars = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** Lines since the start of the process. */
  written = 0;
  dropped = 0;

  constructor(options: AccessLogOptions) {
    this.#options = options;
  }

  /** Decided before the record is built. */
  isWanted(hasFailed: boolean): boolean {
    const { ratio, random } = this.#options;
    return hasFailed || ratio >= 1 || random() < ratio;
  }

  add(record: AccessRecord): void {
    const { constants, pendingCharsMax, batchCharsMax, delayMs } = this.#options;
    const client = record.client === null ? null : redactSecrets(record.client.slice(0, CLIENT_CHARS_MAX));
    const line = `${JSON.stringify({ ...record, client, ...constants })}\n`;
    if (this.#pendingChars + this.#lines.length + line.length > pendingCharsMax) {
      this.dropped++;
      return;
    }
    this.written++;
    this.#lines += line;
    if (this.#lines.length >= batchCharsMax) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), delayMs);
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const lines = this.#lines;
    if (lines === "") return;
    this.#lines = "";
    this.#pendingChars += lines.length;
    this.#options.write(lines, () => {
      this.#pendingChars -= lines.length;
    });
  }
}
