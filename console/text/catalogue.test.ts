/** Every text of the catalogue is used, and exists in every language. */

import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { en } from "./en.ts";
import { zh } from "./zh.ts";

const CONSOLE = join(import.meta.dir, "..");

/** Whether the value is a branch of texts rather than a text. */
function isBranch(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Lists the paths of all texts at or below a path, for example `keys.form.title`. */
function textsAt(path: readonly string[], value: unknown): string[] {
  if (!isBranch(value)) return [path.join(".")];
  return Object.entries(value).flatMap(([name, below]) => textsAt([...path, name], below));
}

/** The texts that a path refers to: one, or all of a branch. A name after a text is a method of the text. */
function meant(path: readonly string[]): string[] {
  let value: unknown = en;
  for (const [depth, name] of path.entries()) {
    if (!isBranch(value)) return [path.slice(0, depth).join(".")];
    value = value[name];
  }
  return value === undefined ? [] : textsAt(path, value);
}

const named = (dotted = "") => dotted.split(/\??\./).filter((name) => name !== "");

/** `const t = useText("keys").form;`, `const { form: t } = useText("keys");`, `const { title } = t;`, `t: Catalogue`. */
const BINDING =
  /const (?<names>\w+|\{[^}]+\}) = (?:useText\("(?<area>\w+)"\)|(?<from>\w+))(?<path>(?:\.\w+)*);|(?<given>\w+|\{[^}]+\}): Catalogue\b/g;

/** The default names: `(t) => t.keys.title`. */
const WHOLE = [
  ["t", []],
  ["texts", []],
] as const;

/** The path of each name in a function, and the function without those declarations, its comments and its strings. */
function bindings(body: string): { bound: Map<string, readonly string[]>; rest: string } {
  const bound = new Map<string, readonly string[]>(WHOLE);
  const rest = body.replace(BINDING, (whole, ...found) => {
    const { names, area, from, path, given }: Partial<Record<string, string>> = found.at(-1);
    const base = area === undefined ? (given === undefined ? bound.get(from ?? "") : []) : [area];
    if (base === undefined) return whole;
    const parts = (names ?? given ?? "").matchAll(/(\w+)(?:: (\w+))?/g);
    const isTakenApart = (names ?? given ?? "").startsWith("{");
    for (const [, name = "", as = name] of parts) {
      bound.set(as, [...base, ...named(path), ...(isTakenApart ? [name] : [])]);
    }
    return "";
  });
  return { bound, rest: rest.replace(/"[^"\n]*"|\/\*.*?\*\/|\/\/.*/g, "") };
}

/** A branch that is passed on, or indexed by a variable, counts as used in full. The whole catalogue does not. */
function usedTextsIn(body: string): string[] {
  const { bound, rest } = bindings(body);
  return [...rest.matchAll(/(?<![.\w])(\w+)((?:\??\.\w+)*)/g)].flatMap(([, name = "", dotted]) => {
    const path = [...(bound.get(name) ?? []), ...named(dotted)];
    return bound.has(name) && path.length > 0 ? meant(path) : [];
  });
}

test("every text of the catalogue is used by a page", () => {
  const usedTexts = readdirSync(CONSOLE, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && !/\.test\.ts$|^text\//.test(name))
    .flatMap((name) => readFileSync(join(CONSOLE, name), "utf8").split(/^\}/m))
    .flatMap(usedTextsIn);
  const unused = new Set(textsAt([], en)).difference(new Set(usedTexts));
  expect([...unused]).toEqual([]);
});

test("every language has the same texts", () => {
  expect(textsAt([], zh).sort()).toEqual(textsAt([], en).sort());
});
