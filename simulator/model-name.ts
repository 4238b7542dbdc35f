/** Behaviour is chosen by the model's name: `sim-fast@events=60,interval=20ms`, `fault/rst@chunk3`. */

export interface FaultPoint {
  unit: "chunk" | "byte";
  count: number;
}

export interface Fault {
  name: string;
  /** Where in the answer it strikes. */
  point: FaultPoint | null;
  /** `@5s`: how long a slow or stalled answer takes before it goes on; null is for ever. */
  durationMs: number | null;
  /** `@retry=2`: seconds for Retry-After. */
  retryAfter: string | null;
  /** `@400`: the status of an answer that leaves the choice open. */
  status: number | null;
  /** `@size=1000000`: bytes of an oversized line. */
  sizeBytes: number | null;
}

export interface Behaviour {
  model: string;
  /** A dated name, as real upstreams answer: a gateway that forgets to put the public name back is caught. */
  responseModel: string;
  fault: Fault | null;
  /** Number of text deltas; null leaves it to the length of the text. */
  events: number | null;
  intervalMs: number;
  /** Exact size of the answer's text (or image); null leaves it alone. */
  bytes: number | null;
  firstMs: number;
  /** Input tokens that each file of a request is counted as, whatever its length. */
  fileTokens: number;
  callsTools: boolean;
  reasons: boolean;
  /** `hidden=400`: reasoning tokens of each choice that are billed and never shown. */
  hiddenTokens: number;
  /** `detached=2s`: a stored response goes on without its reader, and is complete after so long; null stops it. */
  detachedMs: number | null;
}

const DATED_SUFFIX = "-2026-01-01";
const CACHED_NAMES_MAX = 2_000;
const EVENTS_MAX = 1_000_000;
const HIDDEN_TOKENS_MAX = 1_000_000;
const FILE_TOKENS_MAX = 10_000_000;
const BYTES_MAX = 512 * 1024 * 1024;

const known = new Map<string, Behaviour>();

export function behaviourOf(model: string): Behaviour {
  const cached = known.get(model);
  if (cached !== undefined) return cached;
  const behaviour = parseModelName(model);
  if (known.size >= CACHED_NAMES_MAX) known.clear();
  known.set(model, behaviour);
  return behaviour;
}

function parseModelName(model: string): Behaviour {
  const [name, modifiers] = splitName(model);
  return {
    model,
    responseModel: model + DATED_SUFFIX,
    fault: name.startsWith("fault/") ? parseFault(model.slice("fault/".length)) : null,
    events: limited(countOf(modifiers.get("events")), EVENTS_MAX),
    intervalMs: durationMsOf(modifiers.get("interval")) ?? 0,
    bytes: limited(countOf(modifiers.get("bytes")), BYTES_MAX),
    firstMs: durationMsOf(modifiers.get("first")) ?? 0,
    fileTokens: limited(countOf(modifiers.get("file")), FILE_TOKENS_MAX) ?? 0,
    callsTools: model.includes("tools"),
    reasons: model.includes("reason"),
    hiddenTokens: limited(countOf(modifiers.get("hidden")), HIDDEN_TOKENS_MAX) ?? 0,
    detachedMs: durationMsOf(modifiers.get("detached")),
  };
}

/** `429@retry=2`, `rst@chunk3`, `slow-headers@5s`, `canary@401`: a fault without its `fault/`. */
export function parseFault(text: string): Fault {
  const [name, modifiers] = splitName(text);
  const fault: Fault = {
    name,
    point: null,
    durationMs: null,
    retryAfter: null,
    status: null,
    sizeBytes: null,
  };
  for (const [key, value] of modifiers) {
    const point = /^(chunk|byte)(\d{1,12})$/.exec(key);
    if (point !== null) {
      fault.point = { unit: point[1] === "byte" ? "byte" : "chunk", count: Number(point[2]) };
    } else if (key === "retry") fault.retryAfter = value;
    else if (key === "size") fault.sizeBytes = limited(countOf(value), BYTES_MAX);
    else if (/^\d{3}$/.test(key)) fault.status = Number(key);
    else if (value === "") fault.durationMs = durationMsOf(key) ?? fault.durationMs;
  }
  return fault;
}

function splitName(text: string): [name: string, modifiers: Map<string, string>] {
  const modifiers = new Map<string, string>();
  const at = text.indexOf("@");
  if (at < 0) return [text, modifiers];
  for (const part of text.slice(at + 1).split(",")) {
    const equals = part.indexOf("=");
    if (equals < 0) modifiers.set(part.trim(), "");
    else modifiers.set(part.slice(0, equals).trim(), part.slice(equals + 1).trim());
  }
  return [text.slice(0, at), modifiers];
}

function countOf(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : null;
}

function limited(count: number | null, max: number): number | null {
  return count === null ? null : Math.min(count, max);
}

function durationMsOf(text: string | undefined): number | null {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)$/.exec(text ?? "");
  if (match === null) return null;
  const unitMs = match[2] === "ms" ? 1 : match[2] === "s" ? 1_000 : 60_000;
  return Number(match[1]) * unitMs;
}
