/**
 * Probes an account by listing its models, in the same way as a real request. The result shows whether the account
 * responds, whether its credential is accepted, and which models it offers.
 */

import type { HttpClient } from "../net/http-client/contract.ts";
import { DialError, type Dialer } from "../net/http-client/dial.ts";
import type { PolicyAccount } from "./account.ts";
import { AccessTokenError, type AccessTokens } from "./cloud/access-tokens.ts";
import { credentialHeader, KINDS } from "./kinds/table.ts";
import { readModelNames } from "./model-names.ts";
import { type SingleReply, type SingleReplyFailure, sendSingleRequest } from "./single-request.ts";

export interface ProbeOptions {
  dialer: Dialer;
  http: HttpClient;
  accessTokens: AccessTokens;
  userAgent: string;
  timeoutMs: number;
  /** Maximum number of response bytes that are read. */
  bytesMax: number;
}

export type ProbeFailure = SingleReplyFailure;

export type Probe =
  /** `models`: the offered models, sorted; empty if the list could not be read. */
  | { kind: "answers"; status: number; models: string[] }
  | {
      kind: "not_json" | "refused" | "list_denied" | "no_list" | "limited" | "redirects" | "fails";
      status: number;
    }
  | { kind: "unreachable"; failure: ProbeFailure }
  /** `reason` contains the address, for operators. */
  | { kind: "forbidden_address"; reason: string }
  | { kind: "unknown_host" | "bad_url" };

export async function probeAccount(account: PolicyAccount, options: ProbeOptions): Promise<Probe> {
  try {
    return await listModels(account, options);
  } catch (error) {
    if (error instanceof AccessTokenError) return interpretTokenFailure(error);
    if (!(error instanceof DialError) || error.reason === "bad_url") return { kind: "bad_url" };
    return error.reason === "forbidden_address"
      ? { kind: "forbidden_address", reason: error.message }
      : { kind: "unknown_host" };
  }
}

/** The lists are requested one after the other; the first failure is the result. */
async function listModels(account: PolicyAccount, options: ProbeOptions): Promise<Probe> {
  const kind = KINDS[account.kind];
  const credential = await probeCredential(account, options);
  const headers = [
    "accept: application/json",
    `user-agent: ${options.userAgent}`,
    "accept-encoding: identity",
    ...(credential === null ? [] : [`${credential[0]}: ${credential[1]}`]),
    ...kind.listHeaders,
  ];
  const { baseUrl, paths } = kind.modelLists(account);
  const target = await options.dialer.resolve(baseUrl, account);
  const models = new Set<string>();
  let probe: Probe = { kind: "bad_url" };
  for (const path of paths) {
    const request = {
      target,
      method: "GET" as const,
      path,
      headers: `${headers.join("\r\n")}\r\n`,
      body: null,
    };
    const reply = await sendSingleRequest(options.http, request, options);
    probe =
      reply.kind === "responded"
        ? interpretReply(account, reply)
        : { kind: "unreachable", failure: reply.failure };
    if (probe.kind !== "answers") return probe;
    for (const name of probe.models) models.add(name);
  }
  return probe.kind === "answers" ? { ...probe, models: [...models].sort().slice(0, MODELS_MAX) } : probe;
}

async function probeCredential(
  account: PolicyAccount,
  { accessTokens }: ProbeOptions,
): Promise<readonly [name: string, value: string] | null> {
  return KINDS[account.kind].credential === "service_account"
    ? ["authorization", `Bearer ${await accessTokens.get(account)}`]
    : credentialHeader(account);
}

/** The failure of the access token that a list needs. */
function interpretTokenFailure({ failure }: AccessTokenError): Probe {
  const { class: failureClass, reason } = failure;
  if (failureClass === "credential") return { kind: "refused", status: 401 };
  if (failureClass === "timeout") return { kind: "unreachable", failure: "late" };
  return reason.includes("forbidden_address")
    ? { kind: "forbidden_address", reason }
    : { kind: "unreachable", failure: "refused" };
}

function interpretReply(
  { kind }: PolicyAccount,
  { status, contentType, body }: Extract<SingleReply, { kind: "responded" }>,
): Probe {
  if (status >= 200 && status < 300) {
    if (!(contentType?.includes("json") ?? false)) return { kind: "not_json", status };
    return { kind: "answers", status, models: body === null ? [] : readModelNames(body) };
  }
  const known = KINDS[kind].listFailures[status];
  if (known !== undefined) return { kind: known, status };
  if (status === 401 || status === 403) return { kind: "refused", status };
  if (status === 404 || status === 405) return { kind: "no_list", status };
  if (status === 429) return { kind: "limited", status };
  if (status >= 300 && status < 400) return { kind: "redirects", status };
  return { kind: "fails", status };
}

const MODELS_MAX = 1_000;
