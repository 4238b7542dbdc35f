/** Faults that replace the whole response. */

import { createRejection, errorBody, type Rejection } from "../errors.ts";
import type { Fault } from "../model/model-name.ts";

/** Faults that determine the whole response before an endpoint is called. The others apply in `wire.ts`. */
export type EarlyFault = Rejection | "reset" | "never";

export interface FaultContext {
  streams: boolean;
  nowMs: number;
  /** The caller's credential, which a leaking upstream would repeat. */
  credential: string;
}

const SERVER_ERROR = "The server had an error while processing your request. Sorry about that!";
const OVERLOADED = "The engine is currently overloaded, please try again later.";
const RATE_LIMITED =
  "Rate limit reached for sim-fast in organization org-simulator on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 2s.";

/** Faults that a later stage handles. An unknown name must be an error, or a misspelt test would pass. */
const LATER_FAULTS: ReadonlySet<string> = new Set([
  "slow-headers",
  "empty",
  "truncated",
  "badjson",
  "cut",
  "stall",
  "pings",
  "badline",
  "hugeline",
  "crlf",
  "no-event-lines",
  "split",
  "no-usage",
  "usage-zero",
  "usage-negative",
  "usage-nan",
  "usage-huge",
  "usage-absurd",
  "incomplete",
  "failed",
  "no-done",
  "gzip",
  "canary-ok",
  "refusal",
  "connection-limit",
  "forgets",
  "private-events",
  "event-headers",
  "late-events",
  "crash",
  "blocked",
  "filtered",
  "corrupt",
  "not-ready",
  "expired",
]);

/** Errors that depend on nothing but the name of the fault. */
const FIXED_ERRORS: ReadonlyMap<string, Rejection> = new Map([
  [
    "400",
    createRejection(400, {
      message:
        "Invalid value: 'bananas'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
      param: "messages[0].role",
      code: "invalid_value",
    }),
  ],
  [
    "context",
    createRejection(400, {
      message:
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
      param: "messages",
      code: "context_length_exceeded",
    }),
  ],
  ["401", createRejection(401, { message: "Incorrect API key provided.", code: "invalid_api_key" })],
  [
    "403",
    createRejection(403, {
      message: "Country, region, or territory not supported",
      type: "request_forbidden",
      code: "unsupported_country_region_territory",
    }),
  ],
  [
    "404",
    createRejection(404, {
      message: "The model `gone` does not exist or you do not have access to it.",
      param: "model",
      code: "model_not_found",
    }),
  ],
  [
    "429-quota",
    createRejection(429, {
      message: "You exceeded your current quota, please check your plan and billing details.",
      type: "insufficient_quota",
      code: "insufficient_quota",
    }),
  ],
  ["500", createRejection(500, { message: SERVER_ERROR, type: "server_error", code: "server_error" })],
  ["502", html(502, "502 Bad Gateway")],
  ["503", createRejection(503, { message: OVERLOADED, type: "server_error", code: "server_is_overloaded" })],
  ["529", createRejection(529, { message: OVERLOADED, type: "overloaded_error", code: "overloaded_error" })],
  ["html", html(200, "Please sign in to the network")],
  ["redirect", { kind: "rejection", status: 302, body: "", headers: { location: "/__redirected" } }],
]);

/** Returns null when the endpoint responds and the fault may apply later. */
export function earlyFault(fault: Fault, context: FaultContext): EarlyFault | null {
  switch (fault.name) {
    case "refuse":
      return "reset";
    case "rst":
      return fault.point === null ? "reset" : null;
    case "blackhole":
      return "never";
    case "429":
      return rateLimited(fault.retryAfter === null ? {} : { "retry-after": fault.retryAfter });
    case "429-date":
      return rateLimited({ "retry-after": new Date(context.nowMs + 2_000).toUTCString() });
    case "canary":
      return canary(fault.status ?? 500, context.credential);
    case "capacity-in-stream":
      return context.streams ? null : fixedError("503");
    case "error-in-stream":
      return context.streams ? null : fixedError("500");
    default:
      return LATER_FAULTS.has(fault.name) ? null : fixedError(fault.name);
  }
}

function fixedError(name: string): Rejection {
  return (
    FIXED_ERRORS.get(name) ??
    createRejection(400, { message: `The simulator knows no fault '${name}'.`, param: "model" })
  );
}

function rateLimited(headers: Record<string, string>): Rejection {
  return createRejection(
    429,
    { message: RATE_LIMITED, type: "requests", code: "rate_limit_exceeded" },
    { "x-ratelimit-limit-requests": "3", "x-ratelimit-remaining-requests": "0", ...headers },
  );
}

function html(status: number, title: string): Rejection {
  const body = `<!DOCTYPE html><html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>`;
  return { kind: "rejection", status, body, headers: { "content-type": "text/html; charset=utf-8" } };
}

export const CANARY_WORDS = ["org-CANARY7f3a", "CANARY-SECRET-7f3a"] as const;

const CANARY_HEADERS = [
  "openai-organization",
  "openai-project",
  "openai-processing-ms",
  "x-request-id",
  "x-oai-request-id",
  "x-ratelimit-limit-requests",
  "x-codex-turn-state",
  "cf-ray",
  "server",
  "via",
  "etag",
  "x-powered-by",
  "www-authenticate",
  "x-anything-else",
] as const;

export function canaryHeaders(credential: string): Record<string, string> {
  const text = canaryText(credential);
  const headers: Record<string, string> = { "set-cookie": `session="${text}"; HttpOnly` };
  for (const name of CANARY_HEADERS) headers[name] = text;
  return headers;
}

function canary(status: number, credential: string): Rejection {
  const text = canaryText(credential);
  const error = { message: text, type: text, param: text, code: text };
  const envelope = JSON.parse(errorBody(error));
  const body = JSON.stringify({ ...envelope, account: text, request_id: text, detail: [{ note: text }] });
  return { kind: "rejection", status, body, headers: canaryHeaders(credential) };
}

function canaryText(credential: string): string {
  return [credential, ...CANARY_WORDS].join(" ").trim();
}
