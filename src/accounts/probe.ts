/**
 * Probes an account by listing its models, in the same way as a real request. The result shows whether the account
 * responds, whether its credential is accepted, and which models it offers.
 */

import type { AnswerHeaders, HttpClient, HttpFailure } from "../net/http-client/contract.ts";
import { DialError, type Dialer, type DialTarget } from "../net/http-client/dial.ts";
import { joinParts, type Part } from "../net/wire/parts.ts";
import type { PolicyAccount } from "../policy/snapshot.ts";
import { credentialHeader, upstreamPath } from "./address.ts";
import { unpack } from "./unpack.ts";

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
    const target = await options.dialer.resolve(account.baseUrl, account.privateNetwork);
    const reply = await listModels(account, target, options);
    return reply.kind === "answered"
      ? interpretReply(reply)
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
        path: upstreamPath(account, "/models", ""),
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
        failed: ({ kind }) => finish({ kind: "failed", failure: kind }),
      },
    );
    const timer = setTimeout(() => {
      if (headersReceived === null) finish({ kind: "failed", failure: "late" });
      else finishWithResponse(false);
    }, options.timeoutMs);
  });
}

function interpretReply({ status, contentType, body }: Extract<ProbeReply, { kind: "answered" }>): Probe {
  if (status >= 200 && status < 300) {
    if (!(contentType?.includes("json") ?? false)) return { kind: "not_json", status };
    return { kind: "answers", status, models: body === null ? [] : modelNames(body) };
  }
  if (status === 401 || status === 403) return { kind: "refused", status };
  if (status === 404 || status === 405) return { kind: "no_list", status };
  if (status === 429) return { kind: "limited", status };
  if (status >= 300 && status < 400) return { kind: "redirects", status };
  return { kind: "fails", status };
}

const MODELS_MAX = 1_000;
const NAME_CHARS_MAX = 256;

/** Reads `{ "data": [{ "id": "…" }] }`. Unusable names are omitted. */
function modelNames(body: Uint8Array): string[] {
  const list = readData(parseBody(body));
  const names = list.flatMap((entry: unknown) => {
    const id = typeof entry === "object" && entry !== null && "id" in entry ? entry.id : null;
    return typeof id === "string" && id !== "" && id.length <= NAME_CHARS_MAX && !/[\s\p{C}]/u.test(id)
      ? id
      : [];
  });
  return [...new Set(names)].sort().slice(0, MODELS_MAX);
}

function readData(value: unknown): readonly unknown[] {
  const data = typeof value === "object" && value !== null && "data" in value ? value.data : null;
  return Array.isArray(data) ? data : [];
}

function parseBody(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}
