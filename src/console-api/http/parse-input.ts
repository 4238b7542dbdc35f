/** Validates one part of a request to the console API and describes its problems in words, one line each. */

import type { z } from "zod";
import { describeUnknownField, PREDICATE_MESSAGES } from "../../config/schema/rule.ts";
import { paramError } from "../../errors.ts";

/** A body with thousands of invalid items must not cause a response many times its length. */
const PROBLEMS_LISTED_MAX = 20;

/** Reports all problems together. The first field is named separately, for clients that read only one. */
export function parseInput<Schema extends z.ZodType>(
  part: "path" | "query" | "body",
  schema: Schema,
  value: unknown,
): z.output<Schema> {
  const result = schema.safeParse(value, PREDICATE_MESSAGES);
  if (result.success) return result.data;
  const problems = result.error.issues
    .slice(0, PROBLEMS_LISTED_MAX)
    .flatMap((issue) => describeIssue(issue, part))
    .slice(0, PROBLEMS_LISTED_MAX);
  throw paramError(problems[0]?.field || null, "invalid_value", problems.map(({ line }) => line).join("\n"));
}

interface InputProblem {
  readonly field: string;
  readonly line: string;
}

function describeIssue(issue: z.core.$ZodIssue, part: string): InputProblem[] {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.slice(0, PROBLEMS_LISTED_MAX).map((key) => {
      const field = [...path, key].join(".");
      return { field, line: `${field}: ${describeUnknownField(key, issue.message)}` };
    });
  }
  const field = path.join(".");
  if (field !== "") return [{ field, line: `${field}: ${issue.message}` }];
  // The rules that a schema adds to the whole input are sentences of their own.
  return [{ field, line: issue.code === "custom" ? issue.message : `The ${part} ${issue.message}` }];
}
