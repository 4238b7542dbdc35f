/** Applies rules to a body of a dialect, as the gateway does. */

import { wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";
import type { Endpoint, EndpointName } from "../shared/endpoint.ts";
import { applyRules } from "./apply-rules.ts";

const NO_RULES: BodyRules = {
  inputTokensMax: null,
  outputTokens: null,
  effort: null,
  serviceTiers: null,
  tools: null,
  inputsMax: {},
  forced: [],
};

const ENDPOINTS = {
  responses: "responses",
  chat: "chat.completions",
  messages: "messages",
  gemini: "gemini.generate_content",
} as const satisfies Record<string, EndpointName>;
export type Tested = keyof typeof ENDPOINTS;

export const BASE: Readonly<Record<Tested, Record<string, unknown>>> = {
  responses: { model: "m", input: "Hi" },
  chat: { model: "m", messages: [{ role: "user", content: "Hi" }] },
  messages: { model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] },
  gemini: { contents: [{ parts: [{ text: "Hi" }] }] },
};

export function apply(
  tested: Tested,
  body: object | string,
  rules: Partial<BodyRules>,
  endpoint: Endpoint = { ...lookUpEndpoint(ENDPOINTS[tested]), model: "m" },
) {
  const text = typeof body === "string" ? body : JSON.stringify({ ...BASE[tested], ...body });
  const limits = { depthMax: 128, modelNameCharsMax: 200 };
  const scanned = readModelRequest(
    wholeBytesPart(new TextEncoder().encode(text)),
    endpoint,
    limits,
  ).scannedBody();
  if (scanned === null) throw new Error("not JSON");
  const { changed, ...result } = applyRules(scanned, { ...NO_RULES, ...rules }, endpoint);
  return { ...result, text: changed === null ? text : new TextDecoder().decode(changed.bytes) };
}

export function sent(
  tested: Tested,
  body: object | string,
  rules: Partial<BodyRules>,
): Record<string, unknown> {
  return JSON.parse(apply(tested, body, rules).text);
}

export function rejection(tested: Tested, body: object | string, rules: Partial<BodyRules>) {
  try {
    apply(tested, body, rules);
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { code: error.code, param: error.param };
  }
}
