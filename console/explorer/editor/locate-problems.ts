/** Finds where in the text of a body its problems are. */

import { jsonLanguage } from "@codemirror/lang-json";
import { type BodyProblem, findBodyProblems } from "../body-problem.ts";
import type { JsonSchema } from "../json-schema.ts";
import type { JsonPath, SchemaProblem } from "../schema-problems.ts";

export interface LocatedProblem {
  readonly problem: BodyProblem;
  readonly from: number;
  readonly to: number;
  /** Counted from 1. */
  readonly line: number;
}

type JsonNode = ReturnType<typeof jsonLanguage.parser.parse>["topNode"];

/** In the order of the text. Text that is not JSON has one problem, where the parser stopped to understand it. */
export function locateProblems(text: string, schema: JsonSchema): LocatedProblem[] {
  const root = jsonLanguage.parser.parse(text).topNode;
  return findBodyProblems(text, schema)
    .map((problem) => {
      const { from, to } = problem.kind === "syntax" ? findError(root, text) : findRange(root, text, problem);
      return { problem, from, to, line: text.slice(0, from).split("\n").length };
    })
    .toSorted((a, b) => a.from - b.from);
}

interface TextRange {
  readonly from: number;
  readonly to: number;
}

/** The parser marks an error by an empty node: the character at it is shown, or the last one of the text. */
function findError(root: JsonNode, text: string): TextRange {
  const cursor = root.cursor();
  do {
    if (!cursor.type.isError) continue;
    const last = Math.max(0, text.trimEnd().length - 1);
    const from = Math.min(cursor.from, last);
    return { from, to: Math.min(text.length, cursor.from > last ? last + 1 : Math.max(cursor.to, from + 1)) };
  } while (cursor.next());
  return { from: 0, to: text.length };
}

function findRange(root: JsonNode, text: string, { kind, path }: SchemaProblem): TextRange {
  const value = root.firstChild ?? root;
  if (kind === "missing") {
    const object = findValue(value, text, path.slice(0, -1));
    return { from: object.from, to: object.from + 1 };
  }
  const found = findValue(value, text, path);
  const name = kind === "unknown" ? found.parent?.getChild("PropertyName") : null;
  const { from, to } = name ?? found;
  // A whole object or list under a wavy line is hard to read: its bracket is enough.
  return found.name === "Object" || found.name === "Array"
    ? { from, to: name?.to ?? from + 1 }
    : { from, to };
}

function findValue(node: JsonNode, text: string, path: JsonPath): JsonNode {
  const [step, ...rest] = path;
  if (step === undefined) return node;
  const next = typeof step === "number" ? listItems(node)[step] : findMember(node, text, step);
  return next === undefined ? node : findValue(next, text, rest);
}

const VALUES = new Set(["Object", "Array", "String", "Number", "True", "False", "Null"]);

function listItems(array: JsonNode): JsonNode[] {
  const items: JsonNode[] = [];
  for (let child = array.firstChild; child !== null; child = child.nextSibling) {
    if (VALUES.has(child.name)) items.push(child);
  }
  return items;
}

/** Of several members with the same name the last one counts, as in JSON.parse. */
function findMember(object: JsonNode, text: string, name: string): JsonNode | undefined {
  const property = object.getChildren("Property").findLast((one) => {
    const written = one.getChild("PropertyName");
    return written !== null && JSON.parse(text.slice(written.from, written.to)) === name;
  });
  return property?.lastChild ?? undefined;
}
