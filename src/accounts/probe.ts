/**
 * Probes an account by listing its models, in the same way as a real request. The result shows whether the account
 * responds, whether its credential is accepted, and which models it offers.
 */

import { isObject } from "../json/parse.ts";
import type { AnswerHeaders, HttpClient, HttpFailure } from "../net/http-client/contract.ts";
import { DialError, type Dialer, type DialTarget } from "../net/http-client/dial.ts";
import { joinParts, type Part } from "../net/wire/parts.ts";
import type { PolicyAccount } from "../policy/snapshot.ts";
import { unpack } from "./decompress.ts";
import { ANTHROPIC_VERSION } from "./headers.ts";
import { credentialHeader, modelListPath } from "./upstream-address.ts";

export interface ProbeOptions {
  dialer: Dialer;
  http: HttpClient;
  userAgent: string;
  timeoutMs: number;
  /** Maximum number of response bytes that are read. */
  bytesMax: number;
}

export type ProbeFailure = HttpFailure["kind"] | "late";

export type Probe =
  /** `models`: the offered models, sorted; empty if the list could not be read. */
  | { kind: "answers"; status: number; models: string[] }
  | { kind: "not_json" | "refused" | "no_list" | "limited" | "redirects" | "fails"; status: number }
  | { kind: "unreachable"; failure: ProbeFailure }
  /** `reason` contains the address, for operators. */
  | { kind: "forbidden_address"; reason: string }
  | { kind: "unknown_host" | "bad_url" };

export async function probeAccount(account: PolicyAccount, options: ProbeOptions): Promise<Probe> {
  try {
    const target = await options.dialer.resolve(account.baseUrl, account);
    const reply = await listModels(account, target, options);
    return reply.kind === "answered"
      ? interpretReply(account, reply)
      : { kind: "unreachable", failure: reply.failure };
  } catch (error) {
    if (!(error instanceof DialError) || error.reason === "bad_url") return { kind: "bad_url" };
    return error.reason === "forbidden_address"
      ? { kind: "forbidden_address", reason: error.message }
      : { kind: "unknown_host" };
  }
}

type ProbeReply =
  | { kind: "answered"; status: number; contentType: string | null; body: Uint8Array | null }
  | { kind: "failed"; failure: ProbeFailure };

function listModels(account: PolicyAccount, target: DialTarget, options: ProbeOptions): Promise<ProbeReply> {
  const credential = credentialHeader(account);
  const headers = [
    "accept: application/json",
    `user-agent: ${options.userAgent}`,
    "accept-encoding: identity",
    ...(credential === null ? [] : [`${credential[0]}: ${credential[1]}`]),
    ...(account.kind === "anthropic" ? [`anthropic-version: ${ANTHROPIC_VERSION}`] : []),
  ];
  return new Promise((resolve) => {
    let status = 0;
    let headersReceived: AnswerHeaders | null = null;
    const pieces: Part[] = [];
    let bytes = 0;
    const finish = (reply: ProbeReply) => {
      clearTimeout(timer);
      exchange.abort();
      resolve(reply);
    };
    const finishWithResponse = (isComplete: boolean) => {
      const body = isComplete
        ? unpack(joinParts(pieces), headersReceived?.get("content-encoding") ?? null, options.bytesMax)
        : null;
      finish({ kind: "answered", status, contentType: headersReceived?.get("content-type") ?? null, body });
    };
    const exchange = options.http.send(
      {
        target,
        method: "GET",
        path: modelListPath(account),
        headers: `${headers.join("\r\n")}\r\n`,
        body: null,
      },
      {
        head(code, received) {
          status = code;
          headersReceived = received;
          // The status of an error is sufficient, and the upstream's text must not be shown.
          if (code < 200 || code >= 300) finishWithResponse(false);
        },
        data(piece) {
          bytes += piece.end - piece.start;
          if (bytes > options.bytesMax) finishWithResponse(false);
          else pieces.push(piece);
        },
        end: () => finishWithResponse(true),
        fail: ({ kind }) => finish({ kind: "failed", failure: kind }),
      },
    );
    const timer = setTimeout(() => {
      if (headersReceived === null) finish({ kind: "failed", failure: "late" });
      else finishWithResponse(false);
    }, options.timeoutMs);
  });
}

function interpretReply(
  { kind }: PolicyAccount,
  { status, contentType, body }: Extract<ProbeReply, { kind: "answered" }>,
): Probe {
  if (status >= 200 && status < 300) {
    if (!(contentType?.includes("json") ?? false)) return { kind: "not_json", status };
    return { kind: "answers", status, models: body === null ? [] : modelNames(body) };
  }
  // Google reports an invalid key as an invalid request, and a list of models has nothing else that could be invalid.
  const isRefused = status === 401 || status === 403 || (status === 400 && kind === "gemini");
  if (isRefused) return { kind: "refused", status };
  if (status === 404 || status === 405) return { kind: "no_list", status };
  if (status === 429) return { kind: "limited", status };
  if (status >= 300 && status < 400) return { kind: "redirects", status };
  return { kind: "fails", status };
}

const MODELS_MAX = 1_000;
const NAME_CHARS_MAX = 256;

/** Reads `{ "data": [{ "id": "…" }] }`, and Google's `{ "models": [{ "name": "models/…" }] }`. Unusable names are omitted. */
function modelNames(body: Uint8Array): string[] {
  const list = readData(parseBody(body));
  const names = list.flatMap((entry: unknown) => {
    const id = readModelId(entry);
    return typeof id === "string" && id !== "" && id.length <= NAME_CHARS_MAX && !/[\s\p{C}]/u.test(id)
      ? id
      : [];
  });
  return [...new Set(names)].sort().slice(0, MODELS_MAX);
}

function readModelId(entry: unknown): unknown {
  if (!isObject(entry)) return null;
  return typeof entry.name === "string" && entry.id === undefined
    ? entry.name.replace(/^models\//, "")
    : entry.id;
}

function readData(value: unknown): readonly unknown[] {
  const list = isObject(value) ? (value.data ?? value.models) : null;
  return Array.isArray(list) ? list : [];
}

function parseBody(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}
