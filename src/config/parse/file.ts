/**
 * Parses and validates gateway.yaml, as text or as a document. Returns the validated file, or all of its
 * problems in the order of their lines.
 */

import type { z } from "zod";
import { nearestName } from "../../policy/nearest-name.ts";
import { limits } from "../limits/product-limits.ts";
import { describeUnknownField, RULE_MESSAGES } from "../schema/rule.ts";
import { type GatewayDocument, type GatewayFile, gatewayFile } from "../schema/schema.ts";
import {
  comparePositions,
  type FieldProblem,
  fieldProblem,
  type Path,
  type Problem,
} from "../state/problem.ts";
import { checkReferences } from "./check.ts";
import { type KnownNames, NO_KNOWN_NAMES } from "./references.ts";
import { plainTree, readTree, type Tree, type TreeResult } from "./yaml-tree.ts";

export interface Source {
  /** The file name as the operator typed it. Every problem begins with it. */
  fileName: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** Names that the file may refer to without defining them. */
  known?: KnownNames;
  /** A file with more values is rejected. */
  valuesMax?: number | undefined;
}

type ParsedFile =
  | {
      ok: true;
      file: GatewayFile;
      /** Adds the position in the text to a problem that a later step found. */
      problemAt(problem: FieldProblem): Problem;
    }
  | { ok: false; problems: Problem[] };

export function parseGatewayFile(text: string, source: Source): ParsedFile {
  return parseFile(text, source, gatewayFile, buildFileChecks(source.known ?? NO_KNOWN_NAMES));
}

/** Like `parseGatewayFile`, for a document without a text: its problems have a field and no line. */
export function checkDocument(document: GatewayDocument, known: KnownNames): ParsedFile {
  return checkTree(plainTree(document), "", gatewayFile, buildFileChecks(known));
}

function buildFileChecks(known: KnownNames): ExtraChecks {
  return (value, tree) => ({
    findProblems: checkReferences(value, known, {
      show: (path, name) => describeValue(tree, path, name),
      isShowable: (path) => tree.variablesIn(path).length === 0,
    }),
  });
}

type Parsed<T> =
  | { ok: true; file: T; problemAt(problem: FieldProblem): Problem }
  | { ok: false; problems: Problem[] };

/** Checks that a schema cannot express. */
type ExtraChecks = (value: unknown, tree: Tree) => { findProblems: FieldProblem[] };

const NO_CHECKS: ExtraChecks = () => ({ findProblems: [] });

/** Parses a file of any schema. */
export function parseFile<Schema extends z.ZodType>(
  text: string,
  source: Omit<Source, "known">,
  schema: Schema,
  checks: ExtraChecks = NO_CHECKS,
): Parsed<z.output<Schema>> {
  return (
    rejectText(text, source) ??
    checkParsed(readTree(text, source.environment, source.valuesMax), source, schema, checks)
  );
}

/** Returns the problem of a text that must not be parsed, or null. */
function rejectText(
  text: string,
  { fileName }: Pick<Source, "fileName">,
): { ok: false; problems: Problem[] } | null {
  const textProblem = tooLarge(text) ?? notUtf8(text);
  return textProblem === null
    ? null
    : { ok: false, problems: [{ file: fileName, field: "", ...textProblem }] };
}

type TextProblem = Pick<Problem, "line" | "column" | "message">;

function tooLarge(text: string): TextProblem | null {
  if (Buffer.byteLength(text) <= limits.configFileBytesMax) return null;
  return { line: 0, column: 0, message: `The file is larger than ${limits.configFileBytesMax} bytes.` };
}

function notUtf8(text: string): TextProblem | null {
  const at = text.search(UNREADABLE);
  if (at === -1) return null;
  let line = 1;
  let lineStart = 0;
  // A list of the lines would have one element for each byte of some files.
  for (let end = text.indexOf("\n"); end !== -1 && end < at; end = text.indexOf("\n", lineStart)) {
    line++;
    lineStart = end + 1;
  }
  return {
    line,
    column: at - lineStart + 1,
    message: "The file has bytes that are not valid UTF-8 here. Save the file as UTF-8.",
  };
}

/** Characters that result from reading bytes of another encoding as UTF-8. */
const UNREADABLE = /[\uFFFD\0]/;

function checkParsed<Schema extends z.ZodType>(
  read: TreeResult,
  { fileName }: Pick<Source, "fileName">,
  schema: Schema,
  checks: ExtraChecks,
): Parsed<z.output<Schema>> {
  if (read.ok) return checkTree(read.tree, fileName, schema, checks);
  const problems = read.problems.map((problem) => ({ file: fileName, field: "", ...problem }));
  return { ok: false, problems: problems.sort(comparePositions) };
}

function checkTree<Schema extends z.ZodType>(
  tree: Tree,
  fileName: string,
  schema: Schema,
  checks: ExtraChecks,
): Parsed<z.output<Schema>> {
  const problemAt = ({ path, message, onKey }: FieldProblem): Problem => {
    return { file: fileName, ...tree.locate(path, onKey), field: fieldProblem(path), message };
  };
  // A file that contains only comments is valid and defines nothing.
  const value = tree.value === null ? {} : tree.value;
  const result = schema.safeParse(value, RULE_MESSAGES);
  const extraProblems = checks(value, tree);
  const issues = result.success ? [] : result.error.issues;
  // The value of a misspelt field does not matter: its name is reported, not a variable that its value misses.
  const unknownFields = issues.filter(({ code }) => code === "unrecognized_keys");
  const certainProblems = new Set([...describeIssues(unknownFields, tree, value), ...tree.problems]);
  const fieldProblems = [
    ...certainProblems,
    ...describeIssues(issues, tree, value),
    ...extraProblems.findProblems,
  ].filter((problem) => certainProblems.has(problem) || !tree.isBroken(problem.path));
  const problems = firstPerField(fieldProblems).map(problemAt);
  if (result.success && problems.length === 0) return { ok: true, file: result.data, problemAt };
  return { ok: false, problems: problems.sort(comparePositions) };
}

/** Keeps the first problem of each field, which is the closest to the cause. Later ones would only repeat it. */
function firstPerField(problems: FieldProblem[]): FieldProblem[] {
  const seen = new Set<string>();
  return problems.filter(({ path }) => {
    const field = fieldProblem(path);
    if (seen.has(field)) return false;
    seen.add(field);
    return true;
  });
}

/** Fields whose value is a secret even if it is written directly in the file. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(["credential", "password", "secret", "client_secret"]);

/** Whether the value at the path is a secret, or a part of one. */
export function isSecretPath(path: Path): boolean {
  return path.some(
    (part, i) =>
      typeof part === "string" &&
      SECRET_FIELDS.has(part) &&
      !(path[0] === "sign_in" && part === "password" && i === 1),
  );
}

function describeValue(tree: Tree, path: Path, value: string): string {
  if (isSecretPath(path)) return "(not shown)";
  const variables = tree.variablesIn(path);
  if (variables.length > 0) return `from \${${variables.join("}, ${")}}`;
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 79)}…` : value);
}

/** The first ones in the order of the file: describing each of 100,000 would take seconds. */
function describeIssues(issues: readonly z.core.$ZodIssue[], tree: Tree, root: unknown): FieldProblem[] {
  return issues.slice(0, limits.configProblemsMax).flatMap((issue) => describe(issue, tree, root));
}

function describe(issue: z.core.$ZodIssue, tree: Tree, root: unknown): FieldProblem[] {
  const path = issue.path.filter((part): part is string | number => typeof part !== "symbol");
  const value = valueAt(root, path);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      path: [...path, key],
      message: describeUnknownField(key, issue.message),
      onKey: true,
    }));
  }
  const missing = value === undefined;
  if (issue.code === "invalid_value") {
    const allowed = issue.values.map(String);
    const list = `Allowed: ${allowed.join(", ")}.`;
    if (missing) return [{ path, message: `is missing. ${list}` }];
    if (typeof value !== "string") return [{ path, message: `has an invalid value. ${list}` }];
    const close = tree.variablesIn(path).length > 0 ? null : nearestName(value, allowed);
    const hint = close === null ? "" : ` Did you mean ${close}?`;
    return [{ path, message: `${describeValue(tree, path, value)} is not allowed.${hint} ${list}` }];
  }
  if (issue.code === "invalid_key") {
    return [{ path, message: `must be ${issue.issues[0]?.message ?? "plain text"}.`, onKey: true }];
  }
  const rule = issue.message;
  if (missing) return [{ path, message: `is missing. It must be ${rule}.` }];
  if (value === null)
    return [{ path, message: `is empty. Remove the field, or set it to ${rule}.`, onKey: true }];
  const quote = issue.code === "invalid_type" && issue.expected === "string" && typeof value !== "object";
  return [{ path, message: `must be ${rule}.${quote ? " Write it as a string, in quotes." : ""}` }];
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}
