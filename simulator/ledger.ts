/** The ledger of the simulator, which tests compare with the gateway's records. */

import type { UploadedFile } from "./multipart.ts";

/** What the simulator really received and produced: the reference for the gateway's usage records. */
export interface LedgerEntry {
  id: string;
  at: number;
  path: string;
  /** The WebSocket that the request arrived on, counted from 1; null for HTTP. */
  socket: number | null;
  model: string;
  stream: boolean;
  requestBytes: number;
  /** Only with `record: "full"`, as are the headers and the body. */
  bodySha256: string | null;
  headers: Record<string, string>;
  /** Text fields and files of a multipart body. */
  form: { texts: Record<string, string>; files: UploadedFile[] } | null;
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
  images: number;
  eventsSent: number;
  textDeltasSent: number;
  /** When its last event, or its whole body, was sent. */
  sentAt: number | null;
  /** The response was sent to its end. */
  finished: boolean;
  abortedByClient: boolean;
}

export interface Totals {
  requests: number;
  finished: number;
  abortedByClient: number;
  requestBytes: number;
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
  images: number;
  eventsSent: number;
  inFlight: number;
  peakInFlight: number;
}

/** WebSockets since the start, and open ones. */
export interface SocketCounts {
  opened: number;
  open: number;
}

export interface LedgerSnapshot {
  sockets: SocketCounts;
  totals: Totals;
  models: Record<string, Totals>;
  entries: LedgerEntry[];
}

const ENTRIES_MAX = 10_000;
const BODIES_MAX = 200;
const BODY_BYTES_MAX = 1024 * 1024;
const MODELS_MAX = 2_000;

export class Ledger {
  /** Whether headers and bodies are recorded as well. */
  readonly full: boolean;
  #entries: LedgerEntry[] = [];
  /** The index of the oldest entry, which the next one replaces when the ledger is full. */
  #oldest = 0;
  #totals = noTotals();
  readonly #sockets: SocketCounts = { opened: 0, open: 0 };
  readonly #models = new Map<string, Totals>();
  readonly #bodies = new Map<string, Uint8Array>();
  readonly #inFlight = new Set<LedgerEntry>();

  constructor(record: "full" | "counts") {
    this.full = record === "full";
  }

  /** Opens an entry. It is in flight until `close`. */
  open(entry: LedgerEntry): void {
    if (this.#entries.length < ENTRIES_MAX) this.#entries.push(entry);
    else {
      this.#entries[this.#oldest] = entry;
      this.#oldest = (this.#oldest + 1) % ENTRIES_MAX;
    }
    this.#inFlight.add(entry);
    for (const sum of [this.#totals, this.#lookUpModel(entry.model)]) {
      sum.requests++;
      sum.requestBytes += entry.requestBytes;
      sum.inFlight++;
      if (sum.inFlight > sum.peakInFlight) sum.peakInFlight = sum.inFlight;
    }
  }

  close(entry: LedgerEntry): void {
    // A stream can both end and be cancelled, and a reset removes open entries.
    if (!this.#inFlight.delete(entry)) return;
    addUp(this.#totals, entry);
    addUp(this.#lookUpModel(entry.model), entry);
  }

  /** Returns the number of the socket. */
  openSocket(): number {
    this.#sockets.open++;
    return ++this.#sockets.opened;
  }

  closeSocket(): void {
    this.#sockets.open--;
  }

  sockets(): SocketCounts {
    return { ...this.#sockets };
  }

  keepBody(id: string, body: Uint8Array): void {
    if (body.length > BODY_BYTES_MAX) return;
    this.#bodies.set(id, body);
    if (this.#bodies.size <= BODIES_MAX) return;
    const first = this.#bodies.keys().next();
    if (first.done !== true) this.#bodies.delete(first.value);
  }

  findBody(id: string): Uint8Array | null {
    return this.#bodies.get(id) ?? null;
  }

  totals(): Totals {
    return { ...this.#totals };
  }

  modelTotals(model: string): Totals {
    return { ...(this.#models.get(model) ?? noTotals()) };
  }

  /** The last requests, oldest first. */
  entries(): LedgerEntry[] {
    return [...this.#entries.slice(this.#oldest), ...this.#entries.slice(0, this.#oldest)];
  }

  last(): LedgerEntry | null {
    return this.#entries.length === 0 ? null : (this.#entries.at(this.#oldest - 1) ?? null);
  }

  snapshot(): LedgerSnapshot {
    return {
      sockets: this.sockets(),
      totals: this.totals(),
      models: Object.fromEntries(this.#models),
      entries: this.entries(),
    };
  }

  reset(): void {
    this.#entries = [];
    this.#oldest = 0;
    this.#totals = noTotals();
    this.#models.clear();
    this.#bodies.clear();
    this.#inFlight.clear();
  }

  #lookUpModel(model: string): Totals {
    const existing = this.#models.get(model);
    if (existing !== undefined) return existing;
    const created = noTotals();
    if (this.#models.size < MODELS_MAX) this.#models.set(model, created);
    return created;
  }
}

function addUp(sum: Totals, entry: LedgerEntry): void {
  sum.inFlight--;
  if (entry.finished) sum.finished++;
  if (entry.abortedByClient) sum.abortedByClient++;
  sum.inputTokens += entry.inputTokens;
  sum.outputTokens += entry.outputTokens;
  sum.cachedTokens += entry.cachedTokens;
  sum.reasoningTokens += entry.reasoningTokens;
  sum.images += entry.images;
  sum.eventsSent += entry.eventsSent;
}

function noTotals(): Totals {
  return {
    requests: 0,
    finished: 0,
    abortedByClient: 0,
    requestBytes: 0,
    inputTokens: 0,
    outputTokens: 0,
    cachedTokens: 0,
    reasoningTokens: 0,
    images: 0,
    eventsSent: 0,
    inFlight: 0,
    peakInFlight: 0,
  };
}
