/** A captured request, written as a command and as a link to the explorer. */

import type { ResponseBody } from "../../../api.ts";
import { toBase64Url } from "../../../explorer/base64-url.ts";
import { KEY_VARIABLE, quoted } from "../../../snippets/snippet.ts";

export type CaptureDocument = ResponseBody<"admin.captures.read">["document"];
type CapturedRequest = CaptureDocument["request"];

/** Headers that change how the gateway understands the request. */
const SENT_HEADERS: ReadonlySet<string> = new Set([
  "anthropic-version",
  "anthropic-beta",
  "openai-beta",
  "user-agent",
]);

/** The key is read from the environment: a capture does not contain it. */
export function buildCurl({ path, headers, body }: CapturedRequest, origin: string): string {
  const sent = headers.filter(([name]) => SENT_HEADERS.has(name));
  return [
    `curl ${quoted(origin + path, "shell")}`,
    `  -H "Authorization: Bearer $${KEY_VARIABLE}"`,
    ...sent.map(([name, value]) => `  -H ${quoted(`${name}: ${value}`, "shell")}`),
    ...(body === null
      ? ["  -X POST"]
      : ['  -H "Content-Type: application/json"', `  --data-binary ${quoted(body.text, "shell")}`]),
  ].join(" \\\n");
}

/** Path of an endpoint → its operation in the explorer. */
const OPERATIONS: Readonly<Record<string, string>> = {
  "/v1/responses": "createResponse",
  "/v1/responses/compact": "compactResponse",
  "/v1/responses/input_tokens": "countInputTokens",
  "/v1/chat/completions": "createChatCompletion",
  "/v1/messages": "createMessage",
  "/v1/embeddings": "createEmbeddings",
  "/v1/images/generations": "generateImages",
  "/v1/images/edits": "editImages",
};

/** Browsers accept longer addresses, but the page of the explorer becomes slow. */
const BODY_CHARS_MAX = 200_000;

/** Null if the explorer cannot show the request: it is too long, incomplete, or not JSON. */
export function buildExplorerLink({ path, body }: CapturedRequest): string | null {
  const operation = OPERATIONS[path];
  if (operation === undefined || body === null || body.omitted_bytes > 0) return null;
  const text = prettyJson(body.text);
  if (text === null || text.length > BODY_CHARS_MAX) return null;
  return `/explorer/#${operation}/${toBase64Url(text)}`;
}

/** Null if the text is not JSON. */
export function prettyJson(text: string): string | null {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}
