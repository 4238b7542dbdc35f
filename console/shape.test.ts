/** Checks the structure of the console: it imports only types and data of the gateway, and all texts come from the catalogue. */

import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { PAGES } from "./pages.tsx";

interface Source {
  name: string;
  text: string;
}

/** The sources that run in the browser, without the build and the documentation. */
const sources: readonly Source[] = readdirSync(import.meta.dir, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && !/\.test\.ts$|\.d\.ts$|^build\.ts$|^docs\//.test(name))
  .map((name) => ({ name: relative("", name), text: readFileSync(join(import.meta.dir, name), "utf8") }));

/**
 * Data without the program: the explorer may import the description of the API, and the forms the tables of limits and
 * of rules with the function that reads such tables.
 */
const isDescription = (name: string, from = "") =>
  /\/src\/(?:records\/(?:limits|request-policy)|base\/map-kinds)\.ts$/.test(from) ||
  (name.startsWith("explorer/") && /\/src\/(?:public-api\/|errors\.ts$)/.test(from));

test("the console imports only types and data of the gateway", () => {
  const wrong = sources.flatMap(({ name, text }) =>
    [...text.matchAll(/^(?:import|export)\s+(?!type\b)[^;]*?from\s+"((?:\.\.\/)+src\/[^"]+)"/gm)]
      .filter(([, from]) => !isDescription(name, from))
      .map(([, from]) => `${name} imports ${from}`),
  );
  expect(wrong).toEqual([]);
});

/** One or more words at the start of a sentence. Examples of addresses need no translation. */
const WORDS = /^\s*[A-Z][a-z]+\b|[a-z] [a-z]/;
/** Text between tags, alone on a line, and in properties that are displayed or read aloud. */
const VISIBLE_TEXT = [
  /<(?:p|span|strong|h[1-3]|dt|dd|th|td|li|button|label|legend)>([^<>{}]+)</g,
  /^\s*(?!\/\/|\*|case |return |import )([A-Z][a-z]+(?: [a-z]+)+[.:]?)\s*$/gm,
  /\b(?:aria-label|title|placeholder|label|alt)="([^"]+)"/g,
];

test("no component contains hard-coded text", () => {
  const wrong = sources
    .filter(({ name }) => name.endsWith(".tsx"))
    .flatMap(({ name, text }) =>
      VISIBLE_TEXT.flatMap((pattern) => [...text.matchAll(pattern)].map(([, found = ""]) => found))
        .filter((found) => WORDS.test(found))
        .map((found) => `${name} contains "${found}"`),
    );
  expect(wrong).toEqual([]);
});

test("no file is longer than 400 lines", () => {
  const long = sources
    .map(({ name, text }) => ({ name, lines: text.split("\n").length }))
    .filter(({ lines }) => lines > 400);
  expect(long).toEqual([]);
});

/** A QR code is black on white in every theme, because a camera reads it. */
const isInk = (colour: string) => colour === "#fff" || colour === "#000";

test("colours are defined in one file", () => {
  const style = readdirSync(import.meta.dir, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".css") && !name.endsWith("tokens.css"))
    .flatMap((name) =>
      [
        ...readFileSync(join(import.meta.dir, name), "utf8").matchAll(
          /#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch)\(/gi,
        ),
      ].flatMap(([colour]) => (isInk(colour) ? [] : [`${name}: ${colour}`])),
    );
  expect(style).toEqual([]);
});

test("no two pages have the same keyboard shortcut", () => {
  const keys = PAGES.flatMap(({ nav }) => nav?.key ?? []);
  expect(keys.filter((key, i) => keys.indexOf(key) !== i)).toEqual([]);
});
