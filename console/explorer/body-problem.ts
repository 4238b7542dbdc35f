/** What can be wrong with the text of a body: it is not JSON, or the JSON does not match the schema. */

import type { JsonSchema } from "./json-schema.ts";
import { findSchemaProblems, type JsonPath, type SchemaProblem } from "./schema-problems.ts";

export interface SyntaxProblem {
  readonly kind: "syntax";
  readonly path: JsonPath;
  /** The message of the browser's parser. */
  readonly why: string;
}

export type BodyProblem = SchemaProblem | SyntaxProblem;

/** The gateway checks the body again, and its decision is final. */
export function findBodyProblems(text: string, schema: JsonSchema): BodyProblem[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return [{ kind: "syntax", path: [], why: error instanceof Error ? error.message : String(error) }];
  }
  return findSchemaProblems(schema, value);
}
