/** What a snippet is made of, and the words that all of them share. */

import { codeString, type Quote } from "./code-string.ts";

export interface SnippetRequest {
  /** Without `/v1` and without a trailing slash. */
  baseUrl: string;
  method: "GET" | "POST" | "DELETE";
  /** With `/v1`, its parameters filled in, and its query. */
  path: string;
  /** A turn over a WebSocket: the body is its message. */
  isSocket: boolean;
  /** Null where there is none. */
  body: Readonly<Record<string, unknown>> | null;
  /** For forms: field → the file's name. The other fields are in the body. */
  files: readonly { field: string; name: string }[];
}

export interface SnippetLanguage {
  id: string;
  label: string;
  /** Null for what it has no good way to say. */
  write(request: SnippetRequest): string | null;
}

/** Where every snippet takes the key from: it is never part of one. */
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

/** A value as a field of a form, which knows nothing but text. */
export function formText(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
