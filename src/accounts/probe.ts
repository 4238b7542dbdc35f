/**
 * One cheap question to an account, asked the way a request would be: its list of models. It tells whether the account
 * answers and takes its credential, and which models it offers.
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
  /** The most bytes of the answer that are read. */
  bytesMax: number;
}

export type ProbeFailure = HttpFailure["kind"] | "late";

export type Probe =
  /** `models`: what it offers, sorted; empty when its list could not be read. */
  | { kind: "answers"; status: number; models: string[] }
  | { kind: "not_json" | "refused" | "no_list" | "limited" | "redirects" | "fails"; status: number }
  | { kind: "unreachable"; failure: ProbeFailure }
  /** `reason` says which address, for whoever runs the gateway. */
  | { kind: "forbidden_address"; reason: string }
  | { kind: "unknown_host" | "bad_url" };

export async function probeAccount(account: PolicyAccount, options: ProbeOptions): Promise<Probe> {
  try {
    const target = await options.dialer.resolve(account.baseUrl, account.privateNetwork);
    const reply = await listModels(account, target, options);
    return reply.kind === "answered" ? meaningOf(reply) : { kind: "unreachable", failure: reply.failure };
  } catch (error) {
    if (!(error instanceof DialError) || error.reason === "bad_url") return { kind: "bad_url" };
    return error.reason === "forbidden_address"
      ? { kind: "forbidden_address", reason: error.message }
      : { kind: "unknown_host" };
  }
}

type Reply =
  | { kind: "answered"; status: number; contentType: string | null; body: Uint8Array | null }
  | { kind: "failed"; failure: ProbeFailure };

function listModels(account: PolicyAccount, target: DialTarget, options: ProbeOptions): Promise<Reply> {
  const credential = credentialHeader(account);
  const headers = [
    "accept: application/json",
    `user-agent: ${options.userAgent}`,
    "accept-encoding: identity",
    ...(credential === null ? [] : [`${credential[0]}: ${credential[1]}`]),
  ];
  return new Promise((resolve) => {
    let status = 0;
    let told: AnswerHeaders | null = null;
    const pieces: Part[] = [];
    let bytes = 0;
    const answer = (reply: Reply) => {
      clearTimeout(late);
      exchange.abort();
      resolve(reply);
    };
    const answered = (whole: boolean) => {
      const body = whole
        ? unpack(joinParts(pieces), told?.get("content-encoding") ?? null, options.bytesMax)
        : null;
      answer({ kind: "answered", status, contentType: told?.get("content-type") ?? null, body });
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
        head(code, given) {
          status = code;
          told = given;
          // The status of a refusal says enough, and an upstream's text must not be shown.
          if (code < 200 || code >= 300) answered(false);
        },
        data(piece) {
          bytes += piece.end - piece.start;
          if (bytes > options.bytesMax) answered(false);
          else pieces.push(piece);
        },
        end: () => answered(true),
        failed: ({ kind }) => answer({ kind: "failed", failure: kind }),
      },
    );
    const late = setTimeout(() => {
      if (told === null) answer({ kind: "failed", failure: "late" });
      else answered(false);
    }, options.timeoutMs);
  });
}

function meaningOf({ status, contentType, body }: Extract<Reply, { kind: "answered" }>): Probe {
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

/** `{ "data": [{ "id": "…" }] }`; names that could not be used are left out. */
function modelNames(body: Uint8Array): string[] {
  const list = dataOf(parsed(body));
  const names = list.flatMap((entry: unknown) => {
    const id = typeof entry === "object" && entry !== null && "id" in entry ? entry.id : null;
    return typeof id === "string" && id !== "" && id.length <= NAME_CHARS_MAX && !/[\s\p{C}]/u.test(id)
      ? id
      : [];
  });
  return [...new Set(names)].sort().slice(0, MODELS_MAX);
}

function dataOf(value: unknown): readonly unknown[] {
  const data = typeof value === "object" && value !== null && "data" in value ? value.data : null;
  return Array.isArray(data) ? data : [];
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}
