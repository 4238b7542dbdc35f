/** Reads the rule that a schema issue violates, for error messages and for the reference. */

import type { z } from "zod";

const TYPE_RULES: Readonly<Record<string, string>> = {
  array: "a list",
  object: "a map of fields",
  record: "a map of names to names",
  boolean: "true or false",
  string: "a text",
};

/** Returns the valid form as the end of the sentence "must be …". */
export function describeRule(issue: z.core.$ZodIssue): string {
  // Messages of the library begin with this word. The rules of the schema never do.
  const isLibraryMessage = issue.message.startsWith("Invalid ");
  return isLibraryMessage && issue.code === "invalid_type"
    ? (TYPE_RULES[issue.expected] ?? issue.message)
    : issue.message;
}
