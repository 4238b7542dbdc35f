/** Parses model names, which select the behaviour: `sim-fast@events=60,interval=20ms`, `fault/rst@chunk3`. */

export interface FaultPoint {
  unit: "chunk" | "byte";
  count: number;
}

export interface Fault {
  name: string;
  /** Where in the response the fault occurs. */
  point: FaultPoint | null;
  /** `@5s`: how long a slow or stalled response pauses; null is forever. */
  durationMs: number | null;
  /** `@retry=2`: seconds for Retry-After. */
  retryAfter: string | null;
  /** `@400`: the status of a response whose fault does not determine one. */
  status: number | null;
  /** `@size=1000000`: bytes of an oversized line. */
  sizeBytes: number | null;
}

export interface Behaviour {
  model: string;
  /** A dated name, as real upstreams respond, so that a gateway that does not restore the public name is detected. */
  responseModel: string;
  fault: Fault | null;
  /** Number of text deltas; null derives it from the length of the text. */
  events: number | null;
  intervalMs: number;
  /** Exact size of the text or image; null leaves it unchanged. */
  bytes: number | null;
  firstMs: number;
  /** Input tokens per file of a request, regardless of its length. */
  fileTokens: number;
  callsTools: boolean;
  reasons: boolean;
  /** `hidden=400`: reasoning tokens per choice that are billed and never shown. */
  hiddenTokens: number;
  /** `steps=3`: how many tool results a model that calls tools needs before it responds with text. */
  steps: number;
  /** `searches=5`: searches of the web for a request that offers them, whatever its limit; null leaves it to the name. */
  searches: number | null;
  /** `detached=2s`: a stored response continues without its reader and completes after this time; null stops it. */
  detachedMs: number | null;
  /** `background=2s`: a background response is in progress for this time; null completes it when it is first retrieved. */
  backgroundMs: number | null;
}

const DATED_SUFFIX = "-2026-01-01";
const CACHED_NAMES_MAX = 2_000;
const EVENTS_MAX = 1_000_000;
const HIDDEN_TOKENS_MAX = 1_000_000;
const STEPS_MAX = 100;
const SEARCHES_MAX = 100;
const FILE_TOKENS_MAX = 10_000_000;
const BYTES_MAX = 512 * 1024 * 1024;

const cachedBehaviours = new Map<string, Behaviour>();

export function readBehaviour(model: string): Behaviour {
  const cached = cachedBehaviours.get(model);
  if (cached !== undefined) return cached;
  const behaviour = parseModelName(model);
  if (cachedBehaviours.size >= CACHED_NAMES_MAX) cachedBehaviours.clear();
  cachedBehaviours.set(model, behaviour);
  return behaviour;
}

function parseModelName(model: string): Behaviour {
  const [name, modifiers] = splitName(model);
  return {
    model,
    responseModel: model + DATED_SUFFIX,
    fault: name.startsWith("fault/") ? parseFault(model.slice("fault/".length)) : null,
    events: limitCount(parseCount(modifiers.get("events")), EVENTS_MAX),
    intervalMs: parseDurationMs(modifiers.get("interval")) ?? 0,
    bytes: limitCount(parseCount(modifiers.get("bytes")), BYTES_MAX),
    firstMs: parseDurationMs(modifiers.get("first")) ?? 0,
    fileTokens: limitCount(parseCount(modifiers.get("file")), FILE_TOKENS_MAX) ?? 0,
    callsTools: model.includes("tools"),
    reasons: model.includes("reason"),
    hiddenTokens: limitCount(parseCount(modifiers.get("hidden")), HIDDEN_TOKENS_MAX) ?? 0,
    steps: limitCount(parseCount(modifiers.get("steps")), STEPS_MAX) ?? 1,
    searches: limitCount(parseCount(modifiers.get("searches")), SEARCHES_MAX),
    detachedMs: parseDurationMs(modifiers.get("detached")),
    backgroundMs: parseDurationMs(modifiers.get("background")),
  };
}

/** Parses a fault without its `fault/`: `429@retry=2`, `rst@chunk3`, `slow-headers@5s`, `canary@401`. */
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
    else if (key === "size") fault.sizeBytes = limitCount(parseCount(value), BYTES_MAX);
    else if (/^\d{3}$/.test(key)) fault.status = Number(key);
    else if (value === "") fault.durationMs = parseDurationMs(key) ?? fault.durationMs;
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

function parseCount(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : null;
}

function limitCount(count: number | null, max: number): number | null {
  return count === null ? null : Math.min(count, max);
}

function parseDurationMs(text: string | undefined): number | null {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m)$/.exec(text ?? "");
  if (match === null) return null;
  const unitMs = match[2] === "ms" ? 1 : match[2] === "s" ? 1_000 : 60_000;
  return Number(match[1]) * unitMs;
}
