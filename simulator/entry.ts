/** Opens ledger entries and applies faults that were set at run time. */

import type { LedgerEntry } from "./ledger.ts";
import type { Fault } from "./model/model-name.ts";
import type { RequestBody } from "./request-body.ts";
import type { Simulation } from "./simulation.ts";

/** As long as OpenAI's own ids, because the gateway records no others. */
export const REQUEST_ID = "req_000000000000";

/** A received request, before its response is known. */
export interface Arrival {
  id: string;
  path: string;
  headers: Headers;
  model: string;
  body: RequestBody | null;
  /** The number of the WebSocket that it arrived on. */
  socket: number | null;
}

export function openEntry(arrival: Arrival, simulation: Simulation): LedgerEntry {
  const { ledger } = simulation;
  const { id, body } = arrival;
  if (body !== null && body.raw !== null) ledger.keepBody(id, body.raw);
  return {
    id,
    at: simulation.clock.nowMs(),
    path: arrival.path,
    socket: arrival.socket,
    model: arrival.model,
    stream: false,
    requestBytes: body?.bytes ?? 0,
    bodySha256: body?.sha256 ?? null,
    headers: ledger.full ? Object.fromEntries(arrival.headers) : {},
    form: readForm(body),
    inputTokens: 0,
    outputTokens: 0,
    cachedTokens: 0,
    reasoningTokens: 0,
    images: 0,
    eventsSent: 0,
    textDeltasSent: 0,
    sentAt: null,
    finished: false,
    abortedByClient: false,
  };
}

function readForm(body: RequestBody | null): LedgerEntry["form"] {
  if (body === null || body.form === null) return null;
  return { texts: Object.fromEntries(body.form.texts), files: body.form.files };
}

/** Handshake faults apply only to handshakes, and only handshakes use them up. */
export function forcedFault(simulation: Simulation, isHandshake = false): Fault | null {
  const { forced } = simulation;
  if (forced === null || HANDSHAKE_FAULTS.has(forced.fault.name) !== isHandshake) return null;
  forced.left--;
  if (forced.left <= 0) simulation.forced = null;
  return forced.fault;
}

const HANDSHAKE_FAULTS: ReadonlySet<string> = new Set(["upgrade", "upgrade-canary"]);
