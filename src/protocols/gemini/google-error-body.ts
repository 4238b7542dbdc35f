/** The gateway's errors in the form of Google's APIs, which Gemini clients read. */

import { type ApiError, errorObject } from "../../errors.ts";

const STATUS_NAMES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  402: "FAILED_PRECONDITION",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  405: "UNIMPLEMENTED",
  409: "ABORTED",
  413: "INVALID_ARGUMENT",
  415: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

interface GoogleErrorBody {
  readonly error: {
    readonly code: number;
    readonly message: string;
    readonly status: string;
    readonly details: readonly Readonly<Record<string, unknown>>[];
  };
}

/** The stable code of the gateway is the reason; `Retry-After` is also a `RetryInfo`, which gemini-cli honours. */
export function googleErrorBody(error: ApiError, requestId: string): GoogleErrorBody {
  const { code, param } = errorObject(error, requestId);
  const retrySeconds = Number(error.headers["retry-after"] ?? Number.NaN);
  return {
    error: {
      code: error.status,
      message: error.message,
      status: STATUS_NAMES[error.status] ?? (error.status < 500 ? "INVALID_ARGUMENT" : "INTERNAL"),
      details: [
        {
          "@type": "type.googleapis.com/google.rpc.ErrorInfo",
          reason: code.toUpperCase(),
          domain: "model-gateway",
          // Values of the metadata are texts.
          metadata: {
            code,
            request_id: requestId,
            ...(error.tried === null ? {} : { tried: JSON.stringify(error.tried) }),
          },
        },
        ...(param === null
          ? []
          : [
              {
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                fieldViolations: [{ field: param, description: error.message }],
              },
            ]),
        ...(retrySeconds > 0
          ? [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${retrySeconds}s` }]
          : []),
      ],
    },
  };
}
