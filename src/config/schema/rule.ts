import type { z } from "zod";

const TYPE_RULES: Readonly<Record<string, string>> = {
  array: "a list",
  object: "a map of fields",
  record: "a map of names to names",
  boolean: "true or false",
  string: "a text",
};

/** What would have been right, as the end of the sentence "must be …": for complaints, and for the reference. */
export function ruleOf(issue: z.core.$ZodIssue): string {
  // The library's own sentences begin with this word; the schema's rules never do.
  const isLibrarys = issue.message.startsWith("Invalid ");
  return isLibrarys && issue.code === "invalid_type"
    ? (TYPE_RULES[issue.expected] ?? issue.message)
    : issue.message;
}
