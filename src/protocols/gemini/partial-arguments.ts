/**
 * Assembles the arguments of a function call that Vertex AI streams in pieces. Each piece names its place with a JSON
 * path (`$.places[0].name`) and carries one value, or a part of a text.
 */

import { JSON_DEPTH_MAX } from "../../count-limits.ts";
import { type Json, readNumber, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";
import { member } from "./gemini-members.ts";

/** What a piece takes in addition to its text. */
const PIECE_CHARS = 64;
/** A step of a path: `.name`, `['name']`, `["name"]` or `[0]`. */
const STEP = /\.([^.[\]]+)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/y;

type Step = string | number;

type Value =
  /** The pieces of a text, as the JSON between its quotes. */
  | { readonly kind: "text"; readonly pieces: string[]; isOpen: boolean }
  | { readonly kind: "plain"; readonly json: string }
  | { readonly kind: "object"; readonly members: Map<string, Value> }
  | { readonly kind: "array"; readonly elements: Value[] };

type Container = Extract<Value, { kind: "object" | "array" }>;

export class PartialArguments {
  readonly #root: Container = { kind: "object", members: new Map() };

  /** Returns false if a piece has no place: the call cannot be completed. */
  add(pieces: readonly Json[], bounds: ResponseBounds): boolean {
    return pieces.every((piece) => this.#addPiece(piece, bounds));
  }

  toJson(): string {
    return writeValue(this.#root);
  }

  #addPiece(piece: Json, bounds: ResponseBounds): boolean {
    const path = readString(member(piece, "jsonPath")) ?? "";
    bounds.addText(PIECE_CHARS + path.length);
    const steps = readPath(path);
    const last = steps?.pop();
    if (steps === null || last === undefined) return false;
    const parent = this.#findParent(steps, last);
    if (parent === null) return false;
    const known = readStep(parent, last);
    const text = readString(member(piece, "stringValue"));
    const isOpen = member(piece, "willContinue") === true;
    bounds.addText(text?.length ?? 0);
    if (text !== null && known?.kind === "text" && known.isOpen) {
      known.pieces.push(JSON.stringify(text).slice(1, -1));
      known.isOpen = isOpen;
      return true;
    }
    const value: Value =
      text === null
        ? { kind: "plain", json: writePlain(piece) }
        : { kind: "text", pieces: [JSON.stringify(text).slice(1, -1)], isOpen };
    return writeStep(parent, last, value);
  }

  /** Creates the containers on the path: an array if the next step is a number. */
  #findParent(steps: readonly Step[], last: Step): Container | null {
    let parent = this.#root;
    for (const [at, step] of steps.entries()) {
      const next = steps[at + 1] ?? last;
      const known = readStep(parent, step);
      const child: Value =
        known ??
        (typeof next === "number" ? { kind: "array", elements: [] } : { kind: "object", members: new Map() });
      if (child.kind !== "object" && child.kind !== "array") return null;
      if (known === undefined && !writeStep(parent, step, child)) return null;
      parent = child;
    }
    return parent;
  }
}

/** Null for a path of another form, or one that is too deep. */
function readPath(path: string): Step[] | null {
  if (!path.startsWith("$")) return null;
  const steps: Step[] = [];
  let at = 1;
  while (at < path.length) {
    STEP.lastIndex = at;
    const match = STEP.exec(path);
    if (match === null || steps.length >= JSON_DEPTH_MAX) return null;
    const [whole, name, index, quoted] = match;
    steps.push(name ?? (index === undefined ? unquote(quoted ?? "") : Number(index)));
    at += whole.length;
  }
  return steps;
}

function unquote(quoted: string): string {
  return quoted.slice(1, -1).replace(/\\(.)/g, "$1");
}

function readStep(parent: Container, step: Step): Value | undefined {
  if (parent.kind === "object") return parent.members.get(String(step));
  return typeof step === "number" ? parent.elements[step] : undefined;
}

/** Elements arrive in their order. One beyond the end would make an array of any length. */
function writeStep(parent: Container, step: Step, value: Value): boolean {
  if (parent.kind === "object") parent.members.set(String(step), value);
  else if (typeof step !== "number" || step > parent.elements.length) return false;
  else parent.elements[step] = value;
  return true;
}

function writePlain(piece: Json): string {
  const number = member(piece, "numberValue");
  const flag = member(piece, "boolValue");
  if (readNumber(number) !== null) return JSON.stringify(number);
  return typeof flag === "boolean" ? String(flag) : "null";
}

function writeValue(value: Value): string {
  switch (value.kind) {
    case "text":
      return `"${value.pieces.join("")}"`;
    case "plain":
      return value.json;
    case "array":
      return `[${value.elements.map(writeValue).join(",")}]`;
    case "object": {
      const members = [...value.members].map(([name, one]) => `${JSON.stringify(name)}:${writeValue(one)}`);
      return `{${members.join(",")}}`;
    }
  }
}
