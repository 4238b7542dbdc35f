/**
 * The error contract. Every error that a client can see is an entry of one of these tables, carried by `ApiError`,
 * and written as the same object over HTTP and inside streams.
 */

interface CatalogueEntry {
  status: number;
  type: string;
}

const CATALOGUE = {
  invalid_json: { status: 400, type: "invalid_request_error" },
  invalid_request: { status: 400, type: "invalid_request_error" },
  missing_required_parameter: { status: 400, type: "invalid_request_error" },
  invalid_type: { status: 400, type: "invalid_request_error" },
  invalid_value: { status: 400, type: "invalid_request_error" },
  duplicate_parameter: { status: 400, type: "invalid_request_error" },
  too_many_parameters: { status: 400, type: "invalid_request_error" },
  unsupported_parameter: { status: 400, type: "invalid_request_error" },
  unknown_parameter: { status: 400, type: "invalid_request_error" },
  context_length_exceeded: { status: 400, type: "invalid_request_error" },
  previous_response_not_found: { status: 400, type: "invalid_request_error" },
  invalid_encrypted_content: { status: 400, type: "invalid_request_error" },
  policy_violation: { status: 400, type: "invalid_request_error" },
  idempotency_key_reused: { status: 400, type: "invalid_request_error" },
  sign_in_expired: { status: 400, type: "invalid_request_error" },
  invalid_stream_id: { status: 400, type: "invalid_request_error" },
  websocket_stream_limit_reached: { status: 400, type: "invalid_request_error" },
  websocket_connection_limit_reached: { status: 400, type: "invalid_request_error" },
  missing_api_key: { status: 401, type: "invalid_request_error" },
  invalid_api_key: { status: 401, type: "invalid_request_error" },
  sign_in_required: { status: 401, type: "authentication_error" },
  wrong_credentials: { status: 401, type: "authentication_error" },
  identity_rejected: { status: 401, type: "authentication_error" },
  confirmation_required: { status: 401, type: "authentication_error" },
  second_factor_required: { status: 401, type: "authentication_error" },
  interface_not_allowed: { status: 403, type: "permission_error" },
  network_not_allowed: { status: 403, type: "permission_error" },
  forbidden: { status: 403, type: "permission_error" },
  not_in_scope: { status: 403, type: "permission_error" },
  address_not_verified: { status: 403, type: "permission_error" },
  not_assigned: { status: 403, type: "permission_error" },
  bound_exceeded: { status: 403, type: "permission_error" },
  foreign_origin: { status: 403, type: "permission_error" },
  registration_closed: { status: 403, type: "permission_error" },
  origin_not_allowed: { status: 403, type: "permission_error" },
  model_not_found: { status: 404, type: "invalid_request_error" },
  request_not_found: { status: 404, type: "invalid_request_error" },
  response_not_found: { status: 404, type: "invalid_request_error" },
  thread_not_found: { status: 404, type: "invalid_request_error" },
  not_found: { status: 404, type: "invalid_request_error" },
  unknown_url: { status: 404, type: "invalid_request_error" },
  method_not_allowed: { status: 405, type: "invalid_request_error" },
  request_timeout: { status: 408, type: "invalid_request_error" },
  idempotency_in_progress: { status: 409, type: "invalid_request_error" },
  idempotency_response_gone: { status: 409, type: "invalid_request_error" },
  conflict: { status: 409, type: "invalid_request_error" },
  account_exists: { status: 409, type: "invalid_request_error" },
  link_used_up: { status: 410, type: "invalid_request_error" },
  precondition_failed: { status: 412, type: "invalid_request_error" },
  request_too_large: { status: 413, type: "invalid_request_error" },
  unsupported_media_type: { status: 415, type: "invalid_request_error" },
  expectation_failed: { status: 417, type: "invalid_request_error" },
  misdirected_request: { status: 421, type: "invalid_request_error" },
  upgrade_required: { status: 426, type: "invalid_request_error" },
  rate_limit_exceeded: { status: 429, type: "rate_limit_error" },
  usage_limit_reached: { status: 429, type: "usage_limit_reached" },
  insufficient_quota: { status: 429, type: "insufficient_quota" },
  request_header_fields_too_large: { status: 431, type: "invalid_request_error" },
  client_closed_request: { status: 499, type: "invalid_request_error" },
  server_error: { status: 500, type: "server_error" },
  upstream_error: { status: 502, type: "server_error" },
  response_too_large: { status: 502, type: "server_error" },
  server_is_overloaded: { status: 503, type: "service_unavailable_error" },
  no_available_account: { status: 503, type: "service_unavailable_error" },
  no_room_for_body: { status: 503, type: "service_unavailable_error" },
  upstream_unavailable: { status: 503, type: "service_unavailable_error" },
  sign_in_unavailable: { status: 503, type: "service_unavailable_error" },
  store_unavailable: { status: 503, type: "service_unavailable_error" },
  upstream_timeout: { status: 504, type: "server_error" },
  http_version_not_supported: { status: 505, type: "invalid_request_error" },
} as const satisfies Record<string, CatalogueEntry>;

const INVALID_REQUEST = { status: 400, type: "invalid_request_error" } as const;

/** Errors that only an upstream detects. For most of them clients end a turn instead of retrying it. */
const UPSTREAM_CATALOGUE = {
  invalid_prompt: INVALID_REQUEST,
  content_filter: INVALID_REQUEST,
  content_policy_violation: INVALID_REQUEST,
  moderation_blocked: INVALID_REQUEST,
  bio_policy: INVALID_REQUEST,
  cyber_policy: INVALID_REQUEST,
  misalignment_policy_violation: INVALID_REQUEST,
  image_content_policy_violation: INVALID_REQUEST,
  invalid_image: INVALID_REQUEST,
  invalid_image_format: INVALID_REQUEST,
  invalid_image_mode: INVALID_REQUEST,
  invalid_image_url: INVALID_REQUEST,
  invalid_base64_image: INVALID_REQUEST,
  image_too_large: INVALID_REQUEST,
  image_too_small: INVALID_REQUEST,
  image_file_too_large: INVALID_REQUEST,
  image_parse_error: INVALID_REQUEST,
  image_file_not_found: INVALID_REQUEST,
  empty_image_file: INVALID_REQUEST,
  unsupported_image_media_type: INVALID_REQUEST,
  failed_to_download_image: INVALID_REQUEST,
  data_residency_mismatch: INVALID_REQUEST,
  thread_already_continued: INVALID_REQUEST,
  thread_continue_in_flight: INVALID_REQUEST,
  thread_fingerprint_mismatch: INVALID_REQUEST,
  thread_unsupported_request: INVALID_REQUEST,
  tool_use_failed: INVALID_REQUEST,
  json_validate_failed: INVALID_REQUEST,
  usage_not_included: { status: 429, type: "usage_not_included" },
  vector_store_timeout: { status: 504, type: "server_error" },
} as const satisfies Record<string, CatalogueEntry>;

const ENTRIES: Readonly<Record<ApiErrorCode, CatalogueEntry>> = { ...CATALOGUE, ...UPSTREAM_CATALOGUE };

/** Codes of the gateway itself. */
export type ErrorCode = keyof typeof CATALOGUE;
/** Codes that only upstreams produce. */
export type UpstreamCode = keyof typeof UPSTREAM_CATALOGUE;
export type ApiErrorCode = ErrorCode | UpstreamCode;

export const ERROR_CODES = Object.keys(CATALOGUE).filter(isErrorCode);
export const UPSTREAM_CODES = Object.keys(UPSTREAM_CATALOGUE).filter(isUpstreamCode);

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(CATALOGUE, code);
}

export function isUpstreamCode(code: string): code is UpstreamCode {
  return Object.hasOwn(UPSTREAM_CATALOGUE, code);
}

export function errorStatus(code: ApiErrorCode): number {
  return ENTRIES[code].status;
}

export interface ErrorDetail {
  param?: string | null;
  headers?: Readonly<Record<string, string>>;
  /** Groq: the output of the model that could not be read as a call, or did not match the format. */
  failedGeneration?: string | null;
  /** When the exhausted limit resets; some clients show the time. */
  resetsAtMs?: number | null;
  /** The limit that rejected the request, for metrics. Clients do not receive it. */
  limit?: RejectingLimit | null;
  /** The rule of a request policy that rejected the request, for metrics. Clients do not receive it. */
  rule?: string | null;
  /** The steps that could not serve a request with fallback, from the first; null without fallback. */
  tried?: readonly TriedStep[] | null;
}

/** A limit, without its value. `isQueue`: the request waited for it until its time-out, or the queue was full. */
export interface RejectingLimit {
  readonly scope: "key" | "user" | "group" | "account";
  /** A kind of `records/limits.ts`, `window`, `money`, or `rate` for the rate limits of accounts. */
  readonly kind: string;
  readonly isQueue?: boolean;
  /** Whose limit it is. */
  readonly subjectId?: string;
}

/** A step that could not serve a request. Both names are public. */
export interface TriedStep {
  readonly group: string;
  readonly model: string;
  readonly reason: string;
}

/** An error for the client. `message` is public: it names the problem and what to do, and names no account. */
export class ApiError extends Error {
  readonly code: ApiErrorCode;
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly failedGeneration: string | null;
  readonly resetsAtMs: number | null;
  readonly limit: RejectingLimit | null;
  readonly rule: string | null;
  readonly tried: readonly TriedStep[] | null;

  constructor(code: ApiErrorCode, message: string, detail: ErrorDetail = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = ENTRIES[code].status;
    this.type = ENTRIES[code].type;
    this.param = detail.param ?? null;
    this.headers = detail.headers ?? {};
    this.failedGeneration = detail.failedGeneration ?? null;
    this.resetsAtMs = detail.resetsAtMs ?? null;
    this.limit = detail.limit ?? null;
    this.rule = detail.rule ?? null;
    this.tried = detail.tried ?? null;
  }
}

/** An error that names the parameter that caused it. */
export function paramError(param: string | null, code: ApiErrorCode, message: string): ApiError {
  return new ApiError(code, message, { param });
}

export interface ErrorObject {
  message: string;
  type: string;
  param: string | null;
  code: string;
  request_id: string;
  failed_generation?: string;
  /** Unix seconds. */
  resets_at?: number;
  tried?: readonly TriedStep[];
}

export function errorObject(error: ApiError, requestId: string): ErrorObject {
  return {
    message: error.message,
    type: error.type,
    param: error.param,
    code: error.code,
    request_id: requestId,
    ...(error.failedGeneration === null ? {} : { failed_generation: error.failedGeneration }),
    ...(error.resetsAtMs === null ? {} : { resets_at: Math.ceil(error.resetsAtMs / 1000) }),
    ...(error.tried === null ? {} : { tried: error.tried }),
  };
}

export function errorResponse(error: ApiError, requestId: string): Response {
  return Response.json(
    { error: errorObject(error, requestId) },
    { status: error.status, headers: { "x-request-id": requestId, ...error.headers } },
  );
}

export function storeUnavailable(): ApiError {
  return new ApiError(
    "store_unavailable",
    "The gateway cannot access its database at the moment. Try again shortly.",
    { headers: { "retry-after": "2" } },
  );
}

export function storeBusy(): ApiError {
  return new ApiError(
    "server_is_overloaded",
    "The database is busy with other reads, or this one takes too long. Try again shortly, or narrow the filters or the range.",
    { headers: { "retry-after": "5" } },
  );
}

/** Anything that is not an `ApiError` is an internal error, and its text is not shown to the client. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  return new ApiError(
    "server_error",
    "The gateway failed while handling this request. Try again. If the error persists, report the request id to your administrator.",
  );
}
