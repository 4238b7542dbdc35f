/** Describes the issues of schemas in words, for gateway.yaml, the console API and the reference. */

import { z } from "zod";
import { nearestName } from "../../policy/nearest-name.ts";

type RawIssue = z.core.$ZodRawIssue;

/** An option of `safeParse`: issues without a text of their own schema get the rule as message. */
export const RULE_MESSAGES = { error: describeRule };

/** An option of `safeParse`: issues without a text of their own schema get a whole predicate, like "is missing." */
export const PREDICATE_MESSAGES = { error: describePredicate };

const TYPE_RULES: Readonly<Record<string, string>> = {
  array: "a list",
  tuple: "a list",
  object: "a map of fields",
  record: "a map of names to names",
  boolean: "true or false",
  string: "a text",
  number: "a number",
  int: "a whole number",
  null: "null",
};

/**
 * Returns the valid form, as the end of the sentence "must be …". For unknown fields, returns the allowed ones,
 * like the schemas of gateway.yaml do.
 */
function describeRule(issue: RawIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return TYPE_RULES[issue.expected] ?? "left out";
    case "too_small":
      return describeSize(
        issue.origin,
        issue.exact ? "" : issue.inclusive ? "at least " : "more than ",
        issue.minimum,
      );
    case "too_big":
      return describeSize(
        issue.origin,
        issue.exact ? "" : issue.inclusive ? "at most " : "less than ",
        issue.maximum,
      );
    case "invalid_value":
      return listChoices(issue.expected === "stringbool" ? ["true", "false"] : issue.values);
    case "invalid_format":
      return issue.pattern === undefined
        ? `a text in the format ${issue.format}`
        : `a text that matches ${issue.pattern}`;
    case "not_multiple_of":
      return `a multiple of ${issue.divisor}`;
    case "unrecognized_keys":
      return issue.inst instanceof z.core.$ZodObject ? Object.keys(issue.inst._zod.def.shape).join(", ") : "";
    case "invalid_union":
      return Array.isArray(issue.options) ? listChoices(issue.options) : describeBranches(issue.errors);
    default:
      return "another value";
  }
}

function describePredicate(issue: RawIssue): string {
  if (issue.code === "unrecognized_keys") return describeRule(issue);
  if (issue.code === "invalid_key") {
    return `is not a valid name here: it ${issue.issues[0]?.message ?? "must be another name."}`;
  }
  const rule = describeRule(issue);
  if (issue.input === undefined) {
    return issue.code === "invalid_value" ? `is missing. It must be ${rule}.` : "is missing.";
  }
  return issue.input === null ? `must be ${rule}, not null.` : `must be ${rule}.`;
}

/** `allowed` is the message of the issue: the allowed names with commas. */
export function describeUnknownField(key: string, allowed: string): string {
  if (allowed === "") return "is not a known field. Remove it.";
  const close = nearestName(key, allowed.split(", "));
  const hint = close === null ? "" : ` Did you mean ${close}?`;
  return `is not a known field.${hint} Allowed here: ${allowed}.`;
}

/** `bound` is the word before the number; empty for an exact size. */
function describeSize(origin: string, bound: string, size: number | bigint): string {
  if (origin === "string") return `a text of ${bound}${size} ${size === 1 ? "character" : "characters"}`;
  if (origin === "array") return `a list with ${bound}${size} ${size === 1 ? "entry" : "entries"}`;
  return `${bound}${size}`;
}

function listChoices(values: readonly unknown[]): string {
  return values.length === 1 ? String(values[0]) : `one of: ${values.map(String).join(", ")}`;
}

/** Issues inside a branch are left out: the value may be meant for another branch. */
function describeBranches(branches: readonly (readonly z.core.$ZodIssue[])[]): string {
  const rules = branches.flatMap((issues) =>
    issues
      .filter(({ path }) => path.length === 0)
      .slice(0, 1)
      .map((issue) => describeRule(issue as RawIssue)),
  );
  return [...new Set(rules)].join(", or ") || "another value";
}
