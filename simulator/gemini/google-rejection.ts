/** Errors of the simulator in Google's form, as accounts of the Gemini API send them. */

import type { Rejection } from "../errors.ts";
import { isRecord, parseJson } from "../json-fields.ts";

const STATUS_NAMES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

type Detail = Readonly<Record<string, unknown>>;

export function googleBody(status: number, message: string, details: readonly Detail[] = []): string {
  const error = { code: status, message, status: STATUS_NAMES[status] ?? "INTERNAL" };
  return JSON.stringify({ error: details.length === 0 ? error : { ...error, details } });
}

export function googleRejection(status: number, message: string, details: readonly Detail[] = []): Rejection {
  return { kind: "rejection", status, body: googleBody(status, message, details), headers: {} };
}

export function invalidArgument(message: string): Rejection {
  return googleRejection(400, message);
}

/** Google reports an invalid key with status 400. */
function invalidKey(): Rejection {
  return googleRejection(400, "API key not valid. Please pass a valid API key.", [
    {
      "@type": "type.googleapis.com/google.rpc.ErrorInfo",
      reason: "API_KEY_INVALID",
      domain: "googleapis.com",
      metadata: { service: "generativelanguage.googleapis.com" },
    },
  ]);
}

export function unknownGeminiModel(model: string): Rejection {
  return googleRejection(
    404,
    `models/${model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.`,
  );
}

/** The same error as Google would report it. Bodies that are not JSON, such as a proxy's page, stay as they are. */
export function toGoogleRejection(rejection: Rejection): Rejection {
  const body = parseJson(rejection.body);
  const error = isRecord(body) ? body.error : null;
  if (!isRecord(error) || "status" in error) return rejection;
  const message = typeof error.message === "string" ? error.message : "";
  switch (error.code) {
    case "invalid_api_key":
      return invalidKey();
    case "model_not_found":
      return unknownGeminiModel("gone");
    case "context_length_exceeded":
      return invalidArgument(
        "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
      );
  }
  const { status, headers } = rejection;
  const shown = status === 529 ? 503 : status;
  return { ...rejection, status: shown, body: googleBody(shown, message, quotaDetails(error.code, headers)) };
}

function quotaDetails(code: unknown, headers: Readonly<Record<string, string>>): Detail[] {
  const isDaily = code === "insufficient_quota";
  if (!isDaily && code !== "rate_limit_exceeded") return [];
  const quotaId = isDaily
    ? "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
    : "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
  const delay = headers["retry-after"];
  return [
    { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId }] },
    ...(delay === undefined
      ? []
      : [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${Number(delay) || 2}s` }]),
  ];
}
