/** Errors of the simulator as Amazon Bedrock reports them. */

import type { Rejection } from "../errors.ts";
import { isRecord, parseJson } from "../json-fields.ts";

const EXCEPTIONS: Readonly<Record<number, readonly [status: number, exception: string]>> = {
  400: [400, "ValidationException"],
  401: [403, "AccessDeniedException"],
  402: [400, "ServiceQuotaExceededException"],
  403: [403, "AccessDeniedException"],
  404: [404, "ResourceNotFoundException"],
  408: [408, "ModelTimeoutException"],
  429: [429, "ThrottlingException"],
  503: [503, "ServiceUnavailableException"],
  529: [503, "ServiceUnavailableException"],
};

const MESSAGES: Readonly<Record<string, string>> = {
  ThrottlingException: "Too many requests, please wait before trying again.",
  ResourceNotFoundException: "Could not resolve the foundation model from the provided model identifier.",
  ServiceQuotaExceededException: "Your request exceeds the service quota for your account.",
};

export function bedrockRejection(status: number, exception: string, message: string): Rejection {
  const headers = { "x-amzn-errortype": `${exception}:http://internal.amazon.com/coral/com.amazon.bedrock/` };
  return { kind: "rejection", status, body: JSON.stringify({ message }), headers };
}

export function invalidBedrock(message: string): Rejection {
  return bedrockRejection(400, "ValidationException", message);
}

/** As the service writes it, with a capital letter. */
function invalidBedrockKey(): Rejection {
  const rejection = bedrockRejection(403, "AccessDeniedException", "");
  return {
    ...rejection,
    body: '{"Message":"Authentication failed: Please make sure your API Key is valid."}',
  };
}

/** The same error as Amazon Bedrock reports it. Bodies that are not JSON, such as a proxy's page, stay as they are. */
export function toBedrockRejection(rejection: Rejection): Rejection {
  const json = parseJson(rejection.body);
  const error = isRecord(json) ? json.error : null;
  if (rejection.headers["x-amzn-errortype"] !== undefined || !isRecord(error)) return rejection;
  if (error.code === "invalid_api_key") return invalidBedrockKey();
  const reported = error.code === "insufficient_quota" ? 402 : rejection.status;
  const [status, exception] = EXCEPTIONS[reported] ?? [500, "InternalServerException"];
  const converted = bedrockRejection(status, exception, MESSAGES[exception] ?? String(error.message));
  return { ...converted, headers: { ...rejection.headers, ...converted.headers } };
}
