/** A capture as it is stored and shown, and the draft that the request path collects for it. */

import { z } from "zod";
import type { CapturedBytes } from "./capped-bytes.ts";
import {
  findHeaderSecrets,
  type RedactionRules,
  redactHeader,
  redactText,
  trimCutEnd,
  trimCutStart,
} from "./redact.ts";

const headers = z.array(z.tuple([z.string(), z.string()]));

/** A body after redaction. */
const capturedBody = z.object({
  text: z.string(),
  /** The length of the body as it was sent, before redaction. */
  bytes: z.number(),
  /** The bytes left out of its middle, because the body exceeds the limit. */
  omitted_bytes: z.number(),
});

export const captureDocument = z.object({
  request: z.object({
    method: z.string(),
    path: z.string(),
    /** `websocket`: a turn on a WebSocket. */
    transport: z.enum(["http", "websocket"]),
    headers,
    /** Null if the request was rejected before its body was read, or if the body is a form. */
    body: capturedBody.nullable(),
  }),
  attempts: z.array(
    z.object({
      account: z.string(),
      upstream_model: z.string(),
      /** The fallback step, and the name of its group; absent if the request has no fallback. */
      step: z.object({ number: z.number(), group: z.string() }).optional(),
      transport: z.enum(["http", "websocket"]),
      method: z.string(),
      url: z.string(),
      headers,
      body: capturedBody.nullable(),
      /** Null if the upstream did not respond. */
      status: z.number().nullable(),
      response_headers: headers,
      response: capturedBody.nullable(),
      /** Null for the attempt that served the request. */
      failure: z.string().nullable(),
    }),
  ),
  response: z.object({
    status: z.number(),
    stream: z.boolean(),
    body: capturedBody.nullable(),
    /** False if the client disconnected before the end. */
    is_complete: z.boolean(),
  }),
});
export type CaptureDocument = z.output<typeof captureDocument>;
type CapturedBody = z.output<typeof capturedBody>;

export type HeaderList = readonly (readonly [name: string, value: string])[];

/** Before redaction. It never leaves the memory of the process. */
export interface CaptureDraft {
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly transport: "http" | "websocket";
    readonly headers: HeaderList;
    readonly body: CapturedBytes | null;
  };
  readonly attempts: readonly AttemptDraft[];
  readonly response: {
    readonly status: number;
    readonly stream: boolean;
    readonly body: CapturedBytes | null;
    readonly isComplete: boolean;
  };
}

export interface CapturedStep {
  readonly number: number;
  readonly group: string;
}

export interface AttemptDraft {
  readonly account: string;
  readonly upstreamModel: string;
  readonly step: CapturedStep | null;
  readonly transport: "http" | "websocket";
  readonly method: string;
  readonly url: string;
  /** As they are sent: lines that end with CR LF. */
  readonly headerLines: string;
  readonly body: CapturedBytes | null;
  readonly status: number | null;
  readonly responseHeaders: HeaderList;
  readonly response: CapturedBytes | null;
  readonly failure: string | null;
}

export function buildDocument(
  { request, attempts, response }: CaptureDraft,
  { secrets, patterns }: RedactionRules,
): CaptureDocument {
  const sent = attempts.map(({ headerLines }) => parseLines(headerLines));
  // An account may send an access token instead of its credential, and an upstream may return it.
  const fromHeaders = [request.headers, ...sent].flatMap(findHeaderSecrets);
  const rules = { secrets: [...new Set([...secrets, ...fromHeaders])], patterns };
  const redactHeaders = (list: HeaderList) =>
    list.map(([name, value]): [string, string] => [name, redactHeader(name, value, rules)]);
  const body = (kept: CapturedBytes | null) => (kept === null ? null : buildBody(kept, rules));
  return {
    request: { ...request, headers: redactHeaders(request.headers), body: body(request.body) },
    attempts: attempts.map((attempt, i) => ({
      account: attempt.account,
      upstream_model: attempt.upstreamModel,
      ...(attempt.step === null ? {} : { step: attempt.step }),
      transport: attempt.transport,
      method: attempt.method,
      url: redactText(attempt.url, rules),
      headers: redactHeaders(sent[i] ?? []),
      body: body(attempt.body),
      status: attempt.status,
      response_headers: redactHeaders(attempt.responseHeaders),
      response: body(attempt.response),
      failure: attempt.failure === null ? null : redactText(attempt.failure, rules),
    })),
    response: {
      status: response.status,
      stream: response.stream,
      body: body(response.body),
      is_complete: response.isComplete,
    },
  };
}

function buildBody({ head, tail, totalBytes }: CapturedBytes, rules: RedactionRules): CapturedBody {
  const decoder = new TextDecoder();
  const omitted = totalBytes - head.length - tail.length;
  if (tail.length === 0 && omitted === 0) {
    return { text: redactText(decoder.decode(head), rules), bytes: totalBytes, omitted_bytes: 0 };
  }
  if (omitted === 0) {
    const whole = Buffer.concat([head, tail]);
    return { text: redactText(decoder.decode(whole), rules), bytes: totalBytes, omitted_bytes: 0 };
  }
  const begin = redactText(trimCutEnd(withoutBrokenCharacter(decoder.decode(head))), rules);
  const end = redactText(trimCutStart(withoutBrokenCharacter(decoder.decode(tail))), rules);
  return {
    text: `${begin}\n[${omitted} bytes omitted]\n${end}`,
    bytes: totalBytes,
    omitted_bytes: omitted,
  };
}

const REPLACEMENT = "\uFFFD";

/** A cut in the middle of a character leaves replacement characters at that end. */
function withoutBrokenCharacter(text: string): string {
  let start = 0;
  let end = text.length;
  while (text[start] === REPLACEMENT) start++;
  // A pattern that ends with `$` would try again at every one of these characters in the text.
  while (end > start && text[end - 1] === REPLACEMENT) end--;
  return text.slice(start, end);
}

function parseLines(lines: string): [string, string][] {
  return lines
    .split("\r\n")
    .filter((line) => line !== "")
    .map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    });
}
