import type { z } from "zod";
import { checkTogether, type KnownNames, NOTHING_KNOWN } from "./check.ts";
import { limits } from "./limits.ts";
import { byPlace, type FieldProblem, fieldOf, nearest, type Path, type Problem } from "./problem.ts";
import { type GatewayFile, gatewayFile } from "./schema.ts";
import { unbuilt } from "./unbuilt.ts";
import { readTree, type Tree } from "./yaml-tree.ts";

/** gateway.yaml: text → a checked file, or everything that is wrong with it at once, in the order of its lines. */

export interface Source {
  /** As the operator wrote it: it stands at the head of every problem. */
  fileName: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** Names that the file may refer to without defining them. */
  known?: KnownNames;
}

export type ParsedFile =
  | {
      ok: true;
      file: GatewayFile;
      /** Gives a complaint of a later step its place in the text. */
      problemAt(problem: FieldProblem): Problem;
    }
  | { ok: false; problems: Problem[] };

export function parseGatewayFile(text: string, source: Source): ParsedFile {
  return parseFile(text, source, gatewayFile, (value, tree) => ({
    wrong: checkTogether(value, source.known ?? NOTHING_KNOWN, {
      show: (path, name) => shown(tree, path, name),
      mayShow: (path) => tree.variablesIn(path).length === 0,
    }),
    unbuilt: unbuilt(value),
  }));
}

type Parsed<T> =
  | { ok: true; file: T; problemAt(problem: FieldProblem): Problem }
  | { ok: false; problems: Problem[] };

/** Any file of ours: `more` finds what a schema cannot say. */
export function parseFile<Schema extends z.ZodType>(
  text: string,
  source: Omit<Source, "known">,
  schema: Schema,
  more: (value: unknown, tree: Tree) => { wrong: FieldProblem[]; unbuilt: FieldProblem[] } = () => ({
    wrong: [],
    unbuilt: [],
  }),
): Parsed<z.output<Schema>> {
  const whole = (line: number, column: number, message: string): Problem => {
    return { file: source.fileName, line, column, field: "", message };
  };
  if (Buffer.byteLength(text) > limits.configFileBytesMax) {
    return {
      ok: false,
      problems: [whole(0, 0, `The file is larger than ${limits.configFileBytesMax} bytes.`)],
    };
  }
  const read = readTree(text, source.environment);
  if (!read.ok) {
    const problems = read.problems.map(({ line, column, message }) => whole(line, column, message));
    return { ok: false, problems: problems.sort(byPlace) };
  }
  const { tree } = read;
  const problemAt = ({ path, message, onKey }: FieldProblem): Problem => {
    return { file: source.fileName, ...tree.locate(path, onKey), field: fieldOf(path), message };
  };
  // A file of comments alone names nothing, and that is a file.
  const value = tree.value === null ? {} : tree.value;
  const result = schema.safeParse(value);
  const found = more(value, tree);
  const wrong = [
    ...tree.problems,
    ...(result.success ? [] : result.error.issues.flatMap((issue) => describe(issue, tree, value))),
    ...found.wrong,
  ].filter((problem) => tree.problems.includes(problem) || !tree.isBroken(problem.path));
  const problems = [...oneAField(wrong), ...found.unbuilt].map(problemAt);
  if (result.success && problems.length === 0) return { ok: true, file: result.data, problemAt };
  return { ok: false, problems: problems.sort(byPlace) };
}

/** The first complaint about a field is the nearest to the cause; a second one would only repeat it. */
function oneAField(problems: FieldProblem[]): FieldProblem[] {
  const seen = new Set<string>();
  return problems.filter(({ path }) => {
    const field = fieldOf(path);
    if (seen.has(field)) return false;
    seen.add(field);
    return true;
  });
}

/** Fields whose value is a secret even when it stands in the file as it is. */
const SECRET_FIELDS = new Set(["credential", "password", "secret"]);

function shown(tree: Tree, path: Path, value: string): string {
  if (path.some((part) => typeof part === "string" && SECRET_FIELDS.has(part))) return "(not shown)";
  const variables = tree.variablesIn(path);
  if (variables.length > 0) return `from \${${variables.join("}, ${")}}`;
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 79)}…` : value);
}

function describe(issue: z.core.$ZodIssue, tree: Tree, root: unknown): FieldProblem[] {
  const path = issue.path.filter((part): part is string | number => typeof part !== "symbol");
  const value = valueAt(root, path);
  if (issue.code === "unrecognized_keys") {
    const allowed = issue.message.split(", ");
    return issue.keys.map((key) => {
      const close = nearest(key, allowed);
      const hint = close === null ? "" : ` Did you mean ${close}?`;
      return {
        path: [...path, key],
        message: `is not a known field.${hint} Allowed here: ${issue.message}.`,
        onKey: true,
      };
    });
  }
  const missing = value === undefined;
  if (issue.code === "invalid_value") {
    const allowed = issue.values.map(String);
    const list = `Allowed: ${allowed.join(", ")}.`;
    if (missing) return [{ path, message: `is missing. ${list}` }];
    if (typeof value !== "string") return [{ path, message: `must be one of these words. ${list}` }];
    const close = tree.variablesIn(path).length > 0 ? null : nearest(value, allowed);
    const hint = close === null ? "" : ` Did you mean ${close}?`;
    return [{ path, message: `${shown(tree, path, value)} is not allowed.${hint} ${list}` }];
  }
  if (issue.code === "invalid_key") {
    return [{ path, message: `must be ${issue.issues[0]?.message ?? "plain text"}.`, onKey: true }];
  }
  const rule = issue.code === "invalid_type" ? (TYPE_RULES[issue.expected] ?? issue.message) : issue.message;
  const right = isOwnRule(issue.message) ? issue.message : rule;
  if (missing) return [{ path, message: `is missing. It must be ${right}.` }];
  if (value === null)
    return [{ path, message: `is empty. Remove the field, or give it ${right}.`, onKey: true }];
  const quote = issue.code === "invalid_type" && issue.expected === "string" && typeof value !== "object";
  return [{ path, message: `must be ${right}.${quote ? " Write it as a string, in quotes." : ""}` }];
}

const TYPE_RULES: Readonly<Record<string, string>> = {
  array: "a list",
  object: "a map of fields",
  record: "a map of names to names",
  boolean: "true or false",
  string: "a text",
};

/** The library's own sentences begin with these words; the schema's rules never do. */
function isOwnRule(message: string): boolean {
  return !message.startsWith("Invalid ");
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}
