/** Builds descriptions of operations: their parameters, bodies and errors. */

import type { ErrorCode } from "../errors.ts";
import type { Content, Example, Operation, Parameter } from "./operation.ts";

const AUTH: readonly ErrorCode[] = [
  "missing_api_key",
  "invalid_api_key",
  "network_not_allowed",
  "rate_limit_exceeded",
];
export const READ_ERRORS: readonly ErrorCode[] = [...AUTH, "store_unavailable", "server_error"];
export const MODEL_ERRORS: readonly ErrorCode[] = [
  "invalid_json",
  "duplicate_parameter",
  "missing_required_parameter",
  "invalid_type",
  "invalid_value",
  "invalid_request",
  "unsupported_parameter",
  "unknown_parameter",
  "policy_violation",
  "idempotency_key_reused",
  ...AUTH,
  "interface_not_allowed",
  "model_not_found",
  "not_found",
  "request_timeout",
  "idempotency_in_progress",
  "idempotency_response_gone",
  "request_too_large",
  "unsupported_media_type",
  "usage_limit_reached",
  "insufficient_quota",
  "server_error",
  "upstream_error",
  "response_too_large",
  "server_is_overloaded",
  "no_available_account",
  "no_room_for_body",
  "upstream_unavailable",
  "store_unavailable",
  "upstream_timeout",
];

/** All parameters are text. */
export function parameter(
  place: Parameter["in"],
  name: string,
  about: string,
  example: string,
  choices?: readonly string[],
): Parameter {
  const schema: Parameter["schema"] = { type: "string", ...(choices && { enum: choices }) };
  return { name, in: place, about, schema, example };
}

const IDEMPOTENCY = parameter(
  "header",
  "Idempotency-Key",
  "Makes retries safe: a request with the same key is executed only once within a day. 1 to 255 visible ASCII characters.",
  "order-7-try-1",
);

const JSON_TYPE = "application/json";

/** A model request: it has a body, may be streamed, and has many possible errors. */
export function describeModelRequest(
  described: Pick<Operation, "id" | "family" | "summary" | "about" | "response"> & {
    body: Content;
    stream?: Content;
    errors?: readonly ErrorCode[];
    form?: Content;
  },
): Operation {
  const { body, form, stream = null, errors = MODEL_ERRORS, ...rest } = described;
  return {
    ...rest,
    parameters: [IDEMPOTENCY],
    body: form === undefined ? { [JSON_TYPE]: body } : { [JSON_TYPE]: body, "multipart/form-data": form },
    stream,
    errors,
    needsKey: true,
  };
}

/** A request without a body. */
export function describeRead(
  described: Pick<Operation, "id" | "family" | "summary" | "about" | "response"> & Partial<Operation>,
): Operation {
  return { parameters: [], body: null, stream: null, errors: READ_ERRORS, needsKey: true, ...described };
}

export const content = (name: string, schema: Content["schema"], ...shown: Example[]): Content => ({
  name,
  schema,
  examples: shown,
});
