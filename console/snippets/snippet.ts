/** The request that a snippet sends, and the helpers that the languages share. */

import { codeString, type Quote } from "./code-string.ts";

export interface SnippetRequest {
  /** Without `/v1` and without a trailing slash. */
  baseUrl: string;
  method: "GET" | "POST" | "DELETE";
  /** With `/v1`, its parameters and its query. */
  path: string;
  /** A turn over a WebSocket: the body is its message. */
  isSocket: boolean;
  /** Null if the request has no body. */
  body: Readonly<Record<string, unknown>> | null;
  /** For forms: field → the file's name. The other fields are in the body. */
  files: readonly { field: string; name: string }[];
  /** SDK snippets print the generated content. By default they print the whole response. */
  printsContent?: boolean;
}

export interface SnippetLanguage {
  id: string;
  label: string;
  /** For the highlighter. */
  language: string;
  /** Returns null if the language has no good way to send the request. */
  write(request: SnippetRequest): string | null;
}

/** The environment variable that every snippet reads the key from: a snippet never contains a key. */
export const KEY_VARIABLE = "MODEL_GATEWAY_KEY";

export const isForm = ({ files }: SnippetRequest) => files.length > 0;
export const streams = ({ body }: SnippetRequest) => body?.stream === true;

export function json(body: unknown): string {
  return JSON.stringify(body, null, 2);
}

export function quoted(text: string, quote: Quote): string {
  return codeString(text, quote);
}

export function indented(text: string, pad: string): string {
  return text.replaceAll("\n", `\n${pad}`);
}

/** A value as a field of a form, which has only texts. */
export function formText(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
