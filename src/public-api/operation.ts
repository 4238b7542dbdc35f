/** Describes one operation of the public API: request, response, stream and errors. */

import type { z } from "zod";
import type { ErrorCode } from "../errors.ts";

export const FAMILIES = [
  "Models",
  "Responses",
  "Chat Completions",
  "Messages",
  "Gemini",
  "Embeddings",
  "Images",
  "Usage",
  "Health",
] as const;
export type Family = (typeof FAMILIES)[number];

export interface Example<Value = unknown> {
  readonly name: string;
  readonly value: Value;
}

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly about: string;
  readonly schema: { readonly type: "string"; readonly enum?: readonly string[] };
  readonly example: string;
}

export interface Content {
  readonly schema: z.ZodType;
  /** The name of the schema among the components. */
  readonly name: string;
  readonly examples: readonly Example[];
}

export interface Operation {
  readonly id: string;
  readonly family: Family;
  readonly summary: string;
  readonly about: string;
  readonly parameters: readonly Parameter[];
  /** By content type. */
  readonly body: Readonly<Record<string, Content>> | null;
  readonly response: Content;
  /** The response with `stream: true`. The example is the text of a stream. */
  readonly stream: Content | null;
  readonly errors: readonly ErrorCode[];
  readonly needsKey: boolean;
}
