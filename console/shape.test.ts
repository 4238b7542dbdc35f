/** The console keeps its shape: it knows the gateway by its types alone, and says nothing that is not in the catalogue. */

import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

interface Source {
  name: string;
  text: string;
}

/** What runs in the browser: the build and the documentation's own files do not. */
const sources: readonly Source[] = readdirSync(import.meta.dir, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && !/\.test\.ts$|\.d\.ts$|^build\.ts$|^docs\//.test(name))
  .map((name) => ({ name: relative("", name), text: readFileSync(join(import.meta.dir, name), "utf8") }));

/** The explorer shows what the API is described as: that is data. */
const isDescription = (name: string, from = "") =>
  name.startsWith("explorer/") && /\/src\/(?:public-api\/|errors\.ts$)/.test(from);

test("of the gateway only types are imported", () => {
  const wrong = sources.flatMap(({ name, text }) =>
    [...text.matchAll(/^(?:import|export)\s+(?!type\b)[^;]*?from\s+"((?:\.\.\/)+src\/[^"]+)"/gm)]
      .filter(([, from]) => !isDescription(name, from))
      .map(([, from]) => `${name} imports ${from}`),
  );
  expect(wrong).toEqual([]);
});

/** A word that begins a sentence, or several of them. An example of an address is in no language. */
const WORDS = /^\s*[A-Z][a-z]+\b|[a-z] [a-z]/;
/** Between tags, alone on a line, and in the properties that are read or read aloud. */
const SAYING = [
  /<(?:p|span|strong|h[1-3]|dt|dd|th|td|li|button|label|legend)>([^<>{}]+)</g,
  /^\s*(?!\/\/|\*|case |return |import )([A-Z][a-z]+(?: [a-z]+)+[.:]?)\s*$/gm,
  /\b(?:aria-label|title|placeholder|label|alt)="([^"]+)"/g,
];

test("no component has words of its own", () => {
  const wrong = sources
    .filter(({ name }) => name.endsWith(".tsx"))
    .flatMap(({ name, text }) =>
      SAYING.flatMap((saying) => [...text.matchAll(saying)].map(([, said = ""]) => said))
        .filter((said) => WORDS.test(said))
        .map((said) => `${name} says "${said}"`),
    );
  expect(wrong).toEqual([]);
});

test("no file grows beyond what can be read in one sitting", () => {
  const long = sources
    .map(({ name, text }) => ({ name, lines: text.split("\n").length }))
    .filter(({ lines }) => lines > 400);
  expect(long).toEqual([]);
});

/** What a camera reads is black on white, whatever the theme. */
const isInk = (colour: string) => colour === "#fff" || colour === "#000";

test("colours are named in one place", () => {
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
