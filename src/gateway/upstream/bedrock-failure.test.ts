/** The classes of Amazon Bedrock's errors. */

import { expect, test } from "bun:test";
import { failureByStatus } from "./upstream-failure.ts";

const CASES: readonly [status: number, exception: string, body: object, kind: string][] = [
  [
    429,
    "ThrottlingException",
    { message: "Too many tokens, please wait before trying again." },
    "rate_limited",
  ],
  [429, "ModelNotReadyException", { message: "The model is not ready." }, "overloaded"],
  [400, "ValidationException", { message: "messages.0: Field required" }, "rejected"],
  [400, "ValidationException", { message: "The provided model identifier is invalid." }, "model_missing"],
  [
    400,
    "ValidationException",
    {
      message:
        "Invocation of model ID anthropic.claude-x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.",
    },
    "model_missing",
  ],
  // A text of the client that repeats such a sentence does not put the account into cool-down.
  [400, "ValidationException", { message: 'x: "The provided model identifier is invalid."' }, "rejected"],
  [400, "ServiceQuotaExceededException", { message: "Your request exceeds the quota." }, "quota"],
  [
    403,
    "AccessDeniedException",
    { Message: "Authentication failed: Please make sure your API Key is valid." },
    "credential",
  ],
  [403, "AccessDeniedException", { message: "Bearer Token has expired" }, "credential"],
  [
    403,
    "AccessDeniedException",
    { message: "You don't have access to the model with the specified model ID." },
    "model_missing",
  ],
  [403, "UnrecognizedClientException", { message: "The security token is invalid." }, "credential"],
  [404, "ResourceNotFoundException", { message: "Could not resolve the foundation model" }, "model_missing"],
  [408, "ModelTimeoutException", { message: "Timed out" }, "timeout"],
  [424, "ModelErrorException", { message: "The model failed." }, "server"],
  [500, "InternalServerException", {}, "server"],
  [503, "ServiceUnavailableException", {}, "overloaded"],
  [400, "LaterException", { message: "Unknown" }, "rejected"],
];

test.each(CASES)("%d %s %j is %s", (status, exception, body, kind) => {
  const name = `${exception}:http://internal.amazon.com/coral/com.amazon.bedrock/`;
  const headers = {
    get: (header: string) => (header === "x-amzn-errortype" ? name : null),
    has: (header: string) => header === "x-amzn-errortype",
  };
  const failure = failureByStatus(status, headers, Buffer.from(JSON.stringify(body)), 0);
  expect(failure.class as string).toBe(kind);
});
