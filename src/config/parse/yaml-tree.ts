/** Parses YAML text into plain values with their positions. It knows no schema. */

import {
  type Alias,
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type ParsedNode,
  parseDocument,
  type YAMLError,
  type YAMLMap,
} from "yaml";
import { limits } from "../limits/product-limits.ts";
import { type FieldProblem, fieldProblem, type Path } from "../state/problem.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface Tree {
  value: unknown;
  /** Line and column (from 1) of a field, or of its nearest parent if the field is not in the text. */
  locate(path: Path, onKey?: boolean): { line: number; column: number };
  /** The `${…}` variables that the value contains. Such a value is never shown. */
  variablesIn(path: Path): readonly string[];
  /** True for fields that cannot be checked further, because their value could not be computed. */
  isBroken(path: Path): boolean;
  problems: FieldProblem[];
}

interface SyntaxProblem {
  line: number;
  column: number;
  message: string;
}

export type TreeResult = { ok: true; tree: Tree } | { ok: false; problems: SyntaxProblem[] };

/** The text has more values than its reader accepts. */
class TooManyValues extends Error {
  override readonly name = "TooManyValues";
}

const SYNTAX_PROBLEMS_MAX = 20;

interface FieldPosition {
  keyOffset: number | null;
  valueOffset: number | null;
  variables: readonly string[];
  broken: boolean;
}

/** Reads at most `valuesMax` values: entries, fields and elements of lists. */
export function readTree(
  text: string,
  environment: Environment,
  valuesMax = Number.POSITIVE_INFINITY,
): TreeResult {
  try {
    return parseTree(text, environment, valuesMax);
  } catch (error) {
    // The parser recurses on nesting. Only that makes it throw.
    const message =
      error instanceof TooManyValues
        ? `The file has more than ${valuesMax.toLocaleString("en-US")} values. Apply it in parts, or with the command line on the machine of the gateway.`
        : "The file is nested too deeply to be read.";
    return { ok: false, problems: [{ line: 1, column: 1, message }] };
  }
}

function parseTree(text: string, environment: Environment, valuesMax: number): TreeResult {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    // Pretty errors quote the line, which may contain a secret.
    prettyErrors: false,
    schema: "core",
    strict: true,
    // Duplicates are reported below, with their field. The parser would compare every name with every other.
    uniqueKeys: false,
    // "silent" would also suppress the error about a second document.
    logLevel: "error",
  });
  const lineAtOffset = (offset: number) => positionAt(lines, offset).line;
  const fatal: SyntaxProblem[] = [...document.errors, ...document.warnings]
    // One missing bracket can cause thousands of errors. The first few lead to it.
    .slice(0, SYNTAX_PROBLEMS_MAX)
    // Further errors on the same line are mostly consequences of the first.
    .filter(({ pos }, i, all) => i === 0 || lineAtOffset(pos[0]) !== lineAtOffset(all[i - 1]?.pos[0] ?? 0))
    .map((error) => {
      const { code, offset } = findLikelyCause(error, text);
      return { ...positionAt(lines, offset), message: syntaxMessage(code, lineAt(text, offset)) };
    });
  if (fatal.length > 0) return { ok: false, problems: fatal };

  const builder = new TreeBuilder(document, environment, valuesMax);
  const value = builder.build(document.contents);
  return { ok: true, tree: buildTree(value, builder, lines) };
}

function buildTree(
  value: unknown,
  { positions, problems }: Pick<TreeBuilder, "positions" | "problems">,
  lines: LineCounter,
): Tree {
  const broken = new Set([...positions].filter(([, position]) => position.broken).map(([field]) => field));
  return {
    value,
    problems,
    locate(path, onKey = false) {
      for (let length = path.length; length >= 0; length--) {
        const position = positions.get(fieldProblem(path.slice(0, length)));
        const { keyOffset = null, valueOffset = null } = position ?? {};
        const offset = onKey ? (keyOffset ?? valueOffset) : (valueOffset ?? keyOffset);
        if (offset !== null) return positionAt(lines, offset);
      }
      return { line: 1, column: 1 };
    },
    variablesIn: (path) => positions.get(fieldProblem(path))?.variables ?? [],
    isBroken(path) {
      if (broken.size === 0) return false;
      for (let length = path.length; length >= 0; length--) {
        if (broken.has(fieldProblem(path.slice(0, length)))) return true;
      }
      return false;
    },
  };
}

function positionAt(lines: LineCounter, offset: number): { line: number; column: number } {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

/** Wraps values that did not come from a text: they have no position and no interpolation. */
export function plainTree(value: unknown): Tree {
  return {
    value,
    problems: [],
    locate: () => ({ line: 0, column: 0 }),
    variablesIn: () => [],
    isBroken: () => false,
  };
}

/** Converts the nodes of a document to values, and records the position of every field. */
class TreeBuilder {
  readonly positions = new Map<string, FieldPosition>();
  readonly problems: FieldProblem[] = [];
  readonly #document: Document.Parsed;
  readonly #environment: Environment;
  readonly #valuesMax: number;
  #aliases = 0;

  constructor(document: Document.Parsed, environment: Environment, valuesMax: number) {
    this.#document = document;
    this.#environment = environment;
    this.#valuesMax = valuesMax;
  }

  build(node: ParsedNode | null, path: Path = [], keyOffset: number | null = null): unknown {
    if (path.length > limits.configDepthMax) throw new RangeError("nested too deeply");
    if (this.positions.size >= this.#valuesMax) throw new TooManyValues();
    const position: FieldPosition = {
      keyOffset,
      valueOffset: node?.range[0] ?? null,
      variables: [],
      broken: false,
    };
    this.positions.set(fieldProblem(path), position);
    if (node === null) return null;
    if (isAlias(node)) return this.#buildAlias(node, path, position);
    if (isSeq(node)) return node.items.map((item, i) => this.build(item as ParsedNode, [...path, i]));
    if (isMap(node)) return this.#buildMap(node, path);
    if (!isScalar(node)) return null;
    return typeof node.value === "string" ? this.#buildText(node.value, path, position) : node.value;
  }

  #buildAlias(node: Alias.Parsed, path: Path, position: FieldPosition): unknown {
    this.#aliases++;
    const target = this.#aliases > limits.configAliasesMax ? undefined : node.resolve(this.#document);
    if (target === undefined) {
      position.broken = true;
      // Reported once: beyond the limit, every further alias would repeat it.
      if (this.#aliases <= limits.configAliasesMax + 1) {
        this.problems.push({
          path,
          message: `is an alias that cannot be expanded. An alias must refer to an anchor above it, and a file may have at most ${limits.configAliasesMax} aliases.`,
        });
      }
      return null;
    }
    const value = this.build(target as ParsedNode, path, position.keyOffset);
    const expanded = this.positions.get(fieldProblem(path));
    // A problem is reported where the alias is used, not where its anchor is defined.
    if (expanded !== undefined) expanded.valueOffset = node.range[0];
    return value;
  }

  #buildText(source: string, path: Path, position: FieldPosition): string {
    const { text, variables, complaint } = interpolate(source, this.#environment);
    position.variables = variables;
    if (complaint !== null) {
      position.broken = true;
      this.problems.push({ path, message: complaint });
    }
    return text;
  }

  #buildMap(node: YAMLMap.Parsed, path: Path): Record<string, unknown> {
    const value: Record<string, unknown> = {};
    for (const { key, value: item } of node.items) {
      const keyOffset = key?.range[0] ?? null;
      const name = isScalar(key) && key.value !== null ? (key.source ?? String(key.value)) : null;
      if (name === null || name === "__proto__") {
        this.#rejectKey([...path, "?"], "is not a valid field name. A field name must be plain text.", {
          keyOffset,
          valueOffset: null,
        });
      } else if (Object.hasOwn(value, name)) {
        this.#rejectKey([...path, name], "appears twice. Remove one of them.", {
          keyOffset,
          valueOffset: keyOffset,
        });
      } else {
        value[name] = this.build(item, [...path, name], keyOffset);
      }
    }
    return value;
  }

  #rejectKey(path: Path, message: string, offsets: Pick<FieldPosition, "keyOffset" | "valueOffset">): void {
    this.positions.set(fieldProblem(path), { ...offsets, variables: [], broken: true });
    this.problems.push({ path, message, onKey: true });
  }
}

/**
 * Replaces `${NAME}` by the environment variable NAME, `${file:PATH}` by the content of a file, and `$${` by a literal
 * `${`. The caller has read the files: the environment has an entry `file:PATH` for each. Error messages name the
 * variable or the file, never its value.
 */
export function interpolate(source: string, environment: Environment) {
  const variables: string[] = [];
  let complaint: string | null = null;
  const text = source.replace(
    /\$\$\{|\$\{([^}]*)(\}?)/g,
    (whole, name: string | undefined, close: string) => {
      if (name === undefined) return "${";
      if (close === "" || !/^(?:[A-Za-z_][A-Za-z0-9_]*|file:.+)$/.test(name)) {
        complaint = `has a \${ that is not followed by a variable name or file:PATH, and }. Write $\${ for a literal \${.`;
        return whole;
      }
      variables.push(name);
      const value = environment[name];
      if (value === undefined || value === "") {
        complaint = describeMissing(name, value);
        return whole;
      }
      return value;
    },
  );
  return { text, variables, complaint };
}

function describeMissing(name: string, value: string | undefined): string {
  if (name.startsWith("file:"))
    return `requires the file ${name.slice("file:".length)}, which is missing, empty, longer than 64 KiB or not readable. Only the command line reads files.`;
  return `requires the environment variable ${name}, which is ${value === undefined ? "not set" : "empty"}.`;
}

const SYNTAX_MESSAGES: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: "Text that begins with * or & is an alias or an anchor in YAML. Quote it.",
  BAD_DIRECTIVE:
    "A line that begins with % is a YAML directive, and this directive is unknown. Quote the text.",
  BAD_DQ_ESCAPE: "A \"quoted\" text has an invalid backslash escape. Use 'single quotes' or \\\\.",
  BAD_INDENT:
    "The indentation does not match the lines above. Use the same number of spaces for fields of one level, and close every { and [.",
  BAD_SCALAR_START: "A text begins with a character that YAML reserves. Put the text in quotes.",
  BLOCK_AS_IMPLICIT_KEY:
    'The line has a second ": ". Quote the text after the first one, or put it on its own line.',
  BLOCK_IN_FLOW: "A list with - is not allowed inside { } or [ ].",
  KEY_OVER_1024_CHARS: "A field name is longer than 1024 characters.",
  MISSING_CHAR:
    "A character is missing here: a closing quote, bracket or brace, a comma, or the : after a field name.",
  MULTILINE_IMPLICIT_KEY: "A field name must be on one line, followed by a colon and a space.",
  MULTIPLE_DOCS: "A --- line starts a second document. The file must have a single document.",
  RESOURCE_EXHAUSTION: "The file is nested too deeply to be read.",
  TAB_AS_INDENT: "A tab is used for indentation. YAML allows spaces only.",
  TAG_RESOLVE_FAILED:
    "A YAML tag (a text with a leading !) is not supported. Quote a text that begins with !.",
  UNEXPECTED_TOKEN: "The YAML syntax is invalid here. Check the quotes, brackets and colons of this line.",
};

const FIELD_OR_ITEM = /^\s*(- |[^\s'"{}[\],]+:(\s|$))/;

/** The likely cause: where an item is wrongly indented, the parser expects a `-` or a `:`. */
function findLikelyCause(
  { code, pos: [offset] }: YAMLError,
  text: string,
): { code: ErrorCode; offset: number } {
  const lineStart = text.lastIndexOf("\n", offset - 1) + 1;
  const lineEnd = text.indexOf("\n", offset);
  const isAtStart = text.slice(lineStart, offset).trim() === "";
  if (code !== "MISSING_CHAR" && code !== "BLOCK_AS_IMPLICIT_KEY") return { code, offset };
  if (isAtStart && FIELD_OR_ITEM.test(text.slice(offset, lineEnd === -1 ? undefined : lineEnd)))
    return { code: "BAD_INDENT", offset };
  const isOnNextLine =
    code === "BLOCK_AS_IMPLICIT_KEY" && lineEnd !== -1 && !/:(\s|$)/.test(text.slice(offset, lineEnd));
  return isOnNextLine ? { code: "BAD_INDENT", offset: lineEnd + 1 } : { code, offset };
}

/** Uses only the code of the error, because the message of the parser can quote the file and so a secret in it. */
function syntaxMessage(code: ErrorCode, line: string): string {
  const message = SYNTAX_MESSAGES[code] ?? "The file is not valid YAML here.";
  const bracketAt = line.search(/[{[]/);
  return bracketAt !== -1 && line.includes("${", bracketAt + 1)
    ? `${message} Inside { } and [ ], "\${NAME}" must be quoted.`
    : message;
}

function lineAt(text: string, offset: number): string {
  const start = text.lastIndexOf("\n", Math.max(0, offset - 1)) + 1;
  const end = text.indexOf("\n", start);
  return text.slice(start, end === -1 ? undefined : end).slice(0, 1_000);
}
