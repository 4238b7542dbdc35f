/** An error in the form of the interface that the client uses: the status, the headers and the body. */

import { type ApiError, errorObject } from "../errors.ts";
import type { Interface } from "../records/interfaces.ts";
import { googleErrorBody } from "./gemini/google-error-body.ts";
import { messagesErrorBody, messagesErrorStatus } from "./messages/messages-error.ts";
import { type Endpoint, isGeminiEndpoint } from "./shared/request.ts";

export interface ClientError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** Writes the errors of one interface. */
type ErrorWriter = (error: ApiError, requestId: string) => ClientError;

const WRITERS: Readonly<Record<Interface, ErrorWriter>> = {
  chat: writeOpenAiError,
  responses: writeOpenAiError,
  messages: writeMessagesError,
  gemini: writeGoogleError,
  embeddings: writeOpenAiError,
  images: writeOpenAiError,
};

export function writeClientError(iface: Interface, error: ApiError, requestId: string): ClientError {
  return WRITERS[iface](error, requestId);
}

/** The interface whose errors the clients of an endpoint read: Gemini's embeddings have Google's. */
export function errorInterface(endpoint: Endpoint): Interface {
  return isGeminiEndpoint(endpoint) ? "gemini" : endpoint.interface;
}

/** The status that the client receives. */
export function clientErrorStatus(iface: Interface, error: ApiError): number {
  return iface === "messages" ? messagesErrorStatus(error) : error.status;
}

function writeOpenAiError(error: ApiError, requestId: string): ClientError {
  return { status: error.status, headers: error.headers, body: { error: errorObject(error, requestId) } };
}

function writeGoogleError(error: ApiError, requestId: string): ClientError {
  return { status: error.status, headers: error.headers, body: googleErrorBody(error, requestId) };
}

function writeMessagesError(error: ApiError, requestId: string): ClientError {
  const status = messagesErrorStatus(error);
  return {
    status,
    headers: {
      ...error.headers,
      // Anthropic's SDKs read the id of a request here.
      "request-id": requestId,
      ...(isFinal(error) ? { "x-should-retry": "false" } : {}),
    },
    body: messagesErrorBody(error, requestId),
  };
}

/** Claude Code repeats a 401 seven times and more, which only uses up the throttle of invalid keys. */
function isFinal({ code }: ApiError): boolean {
  return code === "invalid_api_key" || code === "missing_api_key";
}
