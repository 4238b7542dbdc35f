/**
 * Derives growth cases from a document: every array, map, object, and string of it is a place that can repeat. A case
 * builds the same document with one place (or several together) grown to a size.
 */

import type { JsonDocument } from "./sample.ts";

/** The variable that `npm run test:long` sets: every document grows on every route. */
export const EVERY_ROUTE = "GROWTH_ON_EVERY_ROUTE";

export interface GrowthCase {
  /** `messages[tool].content[text].text` */
  readonly place: string;
  /** How the place grows. */
  readonly variant: string;
  /** The JSON text of the document, of about this size. */
  build(bytes: number): string;
}

type Path = readonly (string | number)[];

interface Node {
  readonly path: Path;
  /** The path in words: an element of an array has its type, role, or first member. */
  readonly place: string;
  readonly value: unknown;
}

/** Stands for the number of a copy in the text of an element. */
export const NUMBER = "§";
/** Values of these members identify something. Copies that are distinct differ in them. */
const IDENTITIES = new Set([
  "id",
  "call_id",
  "tool_call_id",
  "tool_use_id",
  "item_id",
  "name",
  "tool_name",
  "namespace",
  "url",
  "uri",
  "source",
  "jsonPath",
  "$ref",
]);
const INDEXES = new Set(["index", "output_index", "content_index", "summary_index", "annotation_index"]);
/** Objects whose member names the sender chooses. */
const MAPS = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "metadata",
  "client_metadata",
  "labels",
  "args",
  "env",
  "logit_bias",
]);
const DISCRIMINATORS = ["type", "role"];
/** The names of text that a client or model writes: it is tried in more forms. */
export const TEXTS = new Set([
  "text",
  "content",
  "arguments",
  "partial_json",
  "delta",
  "input",
  "output",
  "data",
  "thinking",
]);
const NESTED_DEPTH = 40;

export function isObject(value: unknown): value is JsonDocument {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** All nodes of a document in depth-first order, one for each place. */
export function listNodes(json: unknown): Node[] {
  const nodes = new Map<string, Node>();
  const visit = (value: unknown, path: Path, place: string) => {
    if (!nodes.has(place)) nodes.set(place, { path, place, value });
    if (Array.isArray(value))
      for (const [at, element] of value.entries())
        visit(element, [...path, at], `${place}[${describeElement(element)}]`);
    else if (isObject(value))
      for (const [name, member] of Object.entries(value))
        visit(member, [...path, name], place === "" ? name : `${place}.${name}`);
  };
  visit(json, [], "");
  return [...nodes.values()];
}

export function describeElement(element: unknown): string {
  if (!isObject(element)) return "";
  for (const name of DISCRIMINATORS) if (typeof element[name] === "string") return String(element[name]);
  return Object.keys(element)[0] ?? "";
}

export function listGrowthCases(json: JsonDocument): GrowthCase[] {
  const nodes = listNodes(json);
  return [...nodes.flatMap((node) => growNode(json, node)), ...growTogether(json, nodes), repeatNames(json)];
}

/** All names of the document again and again, in a member that no reader knows: for readers that search for a name. */
export function repeatNames(json: JsonDocument): GrowthCase {
  return {
    place: "",
    variant: "its names again",
    build: (bytes) => replaceAt({ ...json, x: 0 }, [[["x"], `{${repeat(writeNames(json), bytes)}}`]]),
  };
}

function writeNames(json: unknown): string {
  const names = listNodes(json).flatMap(({ path }) => path.filter((step) => typeof step === "string"));
  return [...new Set(names)].map((name) => `${JSON.stringify(name)}:1`).join(",");
}

function growNode(json: JsonDocument, node: Node): GrowthCase[] {
  return Object.entries(growers(node)).map(([variant, grow]) => ({
    place: node.place,
    variant,
    build: (bytes) => replaceAt(json, [[node.path, grow(bytes)]]),
  }));
}

/** The arrays and maps that no other array contains grow together: some work is done for each pair of their elements. */
function growTogether(json: JsonDocument, nodes: readonly Node[]): GrowthCase[] {
  return nodes.flatMap((parent) => {
    if (!isObject(parent.value)) return [];
    const children = nodes.filter(
      ({ path, value }) =>
        startsWith(path, parent.path) &&
        path.length > parent.path.length &&
        isRepeated(path, value) &&
        path.slice(parent.path.length, -1).every((_, at) => {
          const inner = nodes.find((one) => isSamePath(one.path, path.slice(0, parent.path.length + at + 1)));
          return inner !== undefined && !isRepeated(inner.path, inner.value);
        }),
    );
    if (children.length < 2) return [];
    return [
      {
        place: parent.place,
        variant: "members together",
        build: (bytes: number) =>
          replaceAt(
            json,
            children.map((child) => [child.path, growers(child).distinct?.(bytes / children.length) ?? "[]"]),
          ),
      },
    ];
  });
}

function isRepeated(path: Path, value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) && Object.keys(value).length > 0 && MAPS.has(String(path.at(-1)));
}

function startsWith(path: Path, start: Path): boolean {
  return start.every((step, at) => path[at] === step);
}

function isSamePath(a: Path, b: Path): boolean {
  return a.length === b.length && startsWith(a, b);
}

type Growers = Readonly<Record<string, (bytes: number) => string>>;

/** The ways in which a value grows, each as the JSON text of a value. */
function growers({ path, value }: Node): Growers {
  const name = String(path.at(-1) ?? "");
  if (Array.isArray(value)) return value.length === 0 ? {} : growArray(value);
  if (typeof value === "string") return growString(name, value);
  if (!isObject(value)) return {};
  const [member] = Object.entries(value);
  const members = Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}:${JSON.stringify(one)}`);
  const add = (bytes: number, text: string) => `{${[...members, repeat(text, bytes)].join(",")}}`;
  if (MAPS.has(name) && member !== undefined) {
    const [key, one] = member;
    const text = `${JSON.stringify(key + NUMBER)}:${JSON.stringify(distinguish(one))}`;
    return { distinct: (bytes) => add(bytes, text), ...growDepth() };
  }
  // Numbers that a double cannot hold take another way through the code.
  return {
    members: (bytes) => add(bytes, `"m${NUMBER}":12345678901234567890`),
    ...(path.length === 0
      ? { ...growDepth(), "small members": (bytes) => add(bytes, `"m${NUMBER}":1`) }
      : {}),
  };
}

function growDepth(): Growers {
  const list = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  return {
    "deep member": (bytes) => `{"deep":${list(Math.floor(bytes / 2))}}`,
    "nested members": (bytes) => `{"nested":[${repeat(list(NESTED_DEPTH), bytes)}]}`,
  };
}

function growArray(elements: readonly unknown[]): Growers {
  const equal = elements.map((element) => JSON.stringify(element));
  const distinct = elements.map((element) => JSON.stringify(distinguish(element)));
  const bare = elements.filter(isObject).map((element) => {
    const kept = DISCRIMINATORS.flatMap((name) => (name in element ? [[name, element[name]]] : []));
    return JSON.stringify(Object.fromEntries(kept));
  });
  const groups = (bytes: number, order: "same" | "reversed") => {
    const count = countFor(distinct.join(), bytes);
    return distinct
      .map((text, at) => copies(text, count, order === "reversed" && at % 2 === 1 ? "down" : "up"))
      .join(",");
  };
  const areObjects = bare.length > 0;
  return {
    equal: (bytes) => `[${repeat(equal.join(), bytes)}]`,
    distinct: (bytes) => `[${repeat(distinct.join(), bytes)}]`,
    ...(elements.length > 1 && {
      "in groups": (bytes) => `[${groups(bytes, "same")}]`,
      "in groups, reversed": (bytes) => `[${groups(bytes, "reversed")}]`,
    }),
    ...(areObjects && {
      "only their kinds": (bytes) => `[${repeat(bare.join(), bytes)}]`,
      "empty objects": (bytes) => `[${repeat("{}", bytes)}]`,
    }),
  };
}

const ESCAPES = '\\"\\\\\\n\\u00e4\\ud83d\\ude00';
const WIDE = "ä€😀中";

function growString(name: string, value: string): Growers {
  const fill = (bytes: number, unit: string) => unit.repeat(Math.ceil(bytes / Buffer.byteLength(unit)));
  const inner = JSON.stringify(value).slice(1, -1);
  return {
    long: (bytes) => `"${inner}${fill(bytes, `word ${WIDE} ${ESCAPES} `)}"`,
    ...(TEXTS.has(name) && {
      escaped: (bytes) => `"${inner}${fill(bytes, ESCAPES)}"`,
      wide: (bytes) => `"${inner}${fill(bytes, WIDE)}"`,
      words: (bytes) => `"${inner}${fill(bytes, "word ")}"`,
    }),
    ...(value.startsWith("{") && {
      "JSON members": (bytes) => JSON.stringify(`{${repeat(`"m${NUMBER}":12345678901234567890`, bytes)}}`),
      "JSON elements": (bytes) => JSON.stringify(`{"path":[${repeat("{}", bytes)}]}`),
    }),
  };
}

/** A template of copies that differ in their ids, names and indexes. */
export function distinguish(value: unknown, name = ""): unknown {
  if (Array.isArray(value)) return value.map((element) => distinguish(element, name));
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, distinguish(member, key)]));
  if (typeof value === "string" && (IDENTITIES.has(name) || name === "")) return value + NUMBER;
  if (typeof value === "number" && (INDEXES.has(name) || name === "")) return `${NUMBER}${NUMBER}`;
  return value;
}

export function countFor(text: string, bytes: number): number {
  return Math.max(1, Math.floor(bytes / (Buffer.byteLength(text) + 1)));
}

function repeat(text: string, bytes: number): string {
  return copies(text, countFor(text, bytes), "up");
}

/** Numbered copies of a text, separated by commas. */
function copies(text: string, count: number, order: "up" | "down"): string {
  if (!text.includes(NUMBER)) return `${text},`.repeat(count).slice(0, -1);
  const pieces = text.replaceAll(`"${NUMBER}${NUMBER}"`, NUMBER).split(NUMBER);
  return Array.from({ length: count }, (_, at) =>
    pieces.join(String(order === "up" ? at : count - 1 - at)),
  ).join();
}

const MARK = "\u0001";

/** The text of the document with other values at these paths. */
function replaceAt(json: JsonDocument, changes: readonly (readonly [Path, string])[]): string {
  let marked: unknown = json;
  changes.forEach(([path], at) => {
    marked = setAt(marked, path, `${MARK}${at}`);
  });
  const text = JSON.stringify(marked);
  return changes.reduce((written, [, grown], at) => {
    const [before = "", after = ""] = written.split(`"\\u0001${at}"`, 2);
    return before + grown + after;
  }, text);
}

export function setAt(value: unknown, [step, ...rest]: Path, inner: string): unknown {
  if (step === undefined) return inner;
  if (Array.isArray(value))
    return value.map((element, at) => (at === step ? setAt(element, rest, inner) : element));
  if (!isObject(value)) throw new Error(`no value at ${String(step)}`);
  return { ...value, [step]: setAt(value[step], rest, inner) };
}
