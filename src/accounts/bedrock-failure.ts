/** Classifies the errors of Amazon Bedrock, which are named exceptions in a header or in a stream. */

import type { UpstreamError } from "../protocols/shared/upstream-error.ts";

/** Those of the failure classes that this API can cause. */
type BedrockFailureClass =
  | "credential"
  | "quota"
  | "rate_limited"
  | "overloaded"
  | "timeout"
  | "server"
  | "model_missing"
  | "rejected";

const CLASS_BY_EXCEPTION: ReadonlyMap<string, BedrockFailureClass> = new Map<string, BedrockFailureClass>([
  ["AccessDeniedException", "credential"],
  ["UnrecognizedClientException", "credential"],
  ["ExpiredTokenException", "credential"],
  ["InvalidSignatureException", "credential"],
  ["MissingAuthenticationTokenException", "credential"],
  ["ThrottlingException", "rate_limited"],
  ["ServiceQuotaExceededException", "quota"],
  // The model is being loaded: another account, or a later attempt, may succeed.
  ["ModelNotReadyException", "overloaded"],
  ["ServiceUnavailableException", "overloaded"],
  ["ModelTimeoutException", "timeout"],
  ["ModelErrorException", "server"],
  ["ModelStreamErrorException", "server"],
  ["InternalServerException", "server"],
  ["ResourceNotFoundException", "model_missing"],
  ["ValidationException", "rejected"],
]);

/**
 * Texts about the model of the account, at the beginning, where the API never repeats a client's text. They arrive as an
 * invalid request or as a missing permission.
 */
const MODEL_MISSING =
  /^(?:the provided model identifier is invalid|invocation of model id \S{1,2048} with on-demand throughput isn.t supported|you don.t have access to the model|model access is denied|this model version has reached the end of its life|access denied\. this model is marked by provider as legacy|operation not allowed)/i;

/** Null for an error of another API. */
export function classifyBedrockError({ code, type, message }: UpstreamError): BedrockFailureClass | null {
  const failureClass = code === null && type !== null ? CLASS_BY_EXCEPTION.get(type) : undefined;
  if (failureClass === undefined) return null;
  const mayNameModel = failureClass === "credential" || failureClass === "rejected";
  return mayNameModel && MODEL_MISSING.test(message) ? "model_missing" : failureClass;
}
