/** The ledger of the simulator, which tests compare with the gateway's records. */

import type { MultipartPart } from "./multipart.ts";

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
  form: { texts: Record<string, string>; files: MultipartPart[] } | null;
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
  images: number;
  eventsSent: number;
  textDeltasSent: number;
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

export interface Ledger {
  readonly full: boolean;
  /** Opens an entry. It is in flight until `close`. */
  open(entry: LedgerEntry): void;
  close(entry: LedgerEntry): void;
  /** Returns the number of the socket. */
  openSocket(): number;
  closeSocket(): void;
  sockets(): SocketCounts;
  keepBody(id: string, body: Uint8Array): void;
  totals(): Totals;
  totalsOf(model: string): Totals;
  /** The last requests, oldest first. */
  entries(): LedgerEntry[];
  last(): LedgerEntry | null;
  bodyOf(id: string): Uint8Array | null;
  snapshot(): LedgerSnapshot;
  reset(): void;
}

const ENTRIES_MAX = 10_000;
const BODIES_MAX = 200;
const BODY_BYTES_MAX = 1024 * 1024;
const MODELS_MAX = 2_000;

export function createLedger(record: "full" | "counts"): Ledger {
  let ringBuffer: LedgerEntry[] = [];
  let oldest = 0;
  let totals = noTotals();
  const sockets: SocketCounts = { opened: 0, open: 0 };
  const models = new Map<string, Totals>();
  const bodies = new Map<string, Uint8Array>();
  const open = new Set<LedgerEntry>();

  const lookUpModel = (model: string): Totals => {
    let modelTotals = models.get(model);
    if (modelTotals === undefined) {
      modelTotals = noTotals();
      if (models.size < MODELS_MAX) models.set(model, modelTotals);
    }
    return modelTotals;
  };

  const entries = (): LedgerEntry[] => [...ringBuffer.slice(oldest), ...ringBuffer.slice(0, oldest)];

  return {
    full: record === "full",
    open(entry) {
      if (ringBuffer.length < ENTRIES_MAX) ringBuffer.push(entry);
      else {
        ringBuffer[oldest] = entry;
        oldest = (oldest + 1) % ENTRIES_MAX;
      }
      open.add(entry);
      for (const sum of [totals, lookUpModel(entry.model)]) {
        sum.requests++;
        sum.requestBytes += entry.requestBytes;
        sum.inFlight++;
        if (sum.inFlight > sum.peakInFlight) sum.peakInFlight = sum.inFlight;
      }
    },
    close(entry) {
      // A stream can both end and be cancelled, and a reset removes open entries.
      if (!open.delete(entry)) return;
      addUp(totals, entry);
      addUp(lookUpModel(entry.model), entry);
    },
    openSocket() {
      sockets.open++;
      return ++sockets.opened;
    },
    closeSocket() {
      sockets.open--;
    },
    sockets: () => ({ ...sockets }),
    keepBody(id, body) {
      if (body.length > BODY_BYTES_MAX) return;
      bodies.set(id, body);
      if (bodies.size <= BODIES_MAX) return;
      const first = bodies.keys().next();
      if (first.done !== true) bodies.delete(first.value);
    },
    totals: () => ({ ...totals }),
    totalsOf: (model) => ({ ...(models.get(model) ?? noTotals()) }),
    entries,
    last: () => (ringBuffer.length === 0 ? null : (ringBuffer.at(oldest - 1) ?? null)),
    bodyOf: (id) => bodies.get(id) ?? null,
    snapshot: () => ({
      sockets: { ...sockets },
      totals: { ...totals },
      models: Object.fromEntries(models),
      entries: entries(),
    }),
    reset() {
      ringBuffer = [];
      oldest = 0;
      totals = noTotals();
      models.clear();
      bodies.clear();
      open.clear();
    },
  };
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
