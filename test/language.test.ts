/**
 * The language of the project: sentences name their subject, type names are unique nouns, headers stand above imports,
 * functions are short.
 */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { measureFunctions } from "./architecture/function-lengths.ts";
import { COMMENT, readCode, readProse } from "./architecture/prose.ts";
import { ROOT, readSources } from "./architecture/source-graph.ts";

/** Most tests read all sources, which takes seconds on a busy machine. */
setDefaultTimeout(60_000);

/** Words that hide who does what. CONTRIBUTING.md has the rule and examples. */
const VAGUE_WORDS =
  /\b(?:told|tells|nobody|somebody|anybody|whoever|asks? for|gives? back|given back|goes on|lets go|leaves alone|what is left)\b/i;

/** The same as names in code: `told`, `isHeard`. */
const VAGUE_NAMES =
  /(?<![A-Za-z])(?:told|said|heard|nobody|somebody|whoever)(?![a-z])|(?:Told|Said|Heard|Nobody|Somebody)(?![a-z])/;

/** Texts of other authors, which tests count. */
const QUOTED_TEXTS = new Set(["src/gateway/metering/corpus.test-support.ts"]);

/** Participles that do not describe a type or a file. */
const PARTICIPLES = new Set([
  "admitted",
  "asked",
  "begun",
  "booked",
  "cancelled",
  "claimed",
  "counted",
  "done",
  "ended",
  "folded",
  "found",
  "gathered",
  "given",
  "granted",
  "heard",
  "held",
  "kept",
  "left",
  "made",
  "named",
  "opened",
  "posted",
  "presented",
  "read",
  "redeemed",
  "refused",
  "said",
  "settled",
  "shown",
  "spent",
  "spooled",
  "taken",
  "told",
  "verified",
  "waited",
  "waiting",
  "wanted",
  "written",
]);

const production = readSources("src").filter(({ isTest }) => !isTest);
const exportedTypes = production.flatMap(({ path, text }) =>
  [...text.matchAll(/^export (?:abstract )?(?:class|interface|type) (\w+)/gm)].map(([, name = ""]) => ({
    name,
    file: relative(ROOT, path),
  })),
);

test("every exported type has a unique name", () => {
  const files = Map.groupBy(exportedTypes, ({ name }) => name);
  const shared = [...files].filter(([, places]) => places.length > 1);
  expect(shared.map(([name, places]) => `${name}: ${places.map(({ file }) => file).join(", ")}`)).toEqual([]);
});

test("no exported type is a bare participle", () => {
  expect(exportedTypes.filter(({ name }) => PARTICIPLES.has(name.toLowerCase()))).toEqual([]);
});

test("no file is named by a bare participle", () => {
  const names = production.map(({ path }) => basename(path).replace(/\.ts$/, ""));
  expect(names.filter((name) => PARTICIPLES.has(name))).toEqual([]);
});

test("a file header stands above the imports", () => {
  const below = production.filter(({ text }) => {
    const firstImport = text.search(/^import /m);
    return firstImport >= 0 && !text.slice(0, firstImport).includes("/**");
  });
  expect(below.map(({ path }) => relative(ROOT, path))).toEqual([]);
});

test("a private member is written #name; a constructor cannot be", () => {
  const modifier = /^ +private (?!constructor)/m;
  const found = ["src", "console", "simulator", "bench", "test"]
    .flatMap(readSources)
    .filter(({ text }) => modifier.test(text));
  expect(found.map(({ path }) => relative(ROOT, path))).toEqual([]);
});

test("every file of the console begins with a sentence about it", () => {
  const without = readSources("console").filter(({ isTest, text }) => !isTest && !text.startsWith("/**"));
  expect(without.map(({ path }) => relative(ROOT, path))).toEqual([]);
});

test("no function or value is called …Of, which says nothing", () => {
  /** Names of the language and of JSON Schema. */
  const FOREIGN_NAMES = new Set(["indexOf", "anyOf"]);
  const NAMES =
    /\b(?:function\*?|const|let) (\w+Of)\b|^ +(?:async |static |get |\*)*#?(\w+Of)(?:<.*>)?\(.*\{$/gm;
  const vague = ["src", "console", "simulator", "release", "deploy", "bench", "test"]
    .flatMap((folder) => readSources(folder))
    .flatMap(({ path, text }) =>
      [...readCode(text).matchAll(NAMES)].map(([, value, method]) => ({ path, name: value ?? method ?? "" })),
    )
    .filter(({ name }) => !FOREIGN_NAMES.has(name));
  expect(vague.map(({ path, name }) => `${relative(ROOT, path)}: ${name}`)).toEqual([]);
});

const sources = ["src", "console", "simulator", "test", "bench", "release", "deploy"]
  .flatMap((folder) => readSources(folder))
  .map((source) => ({ ...source, file: relative(ROOT, source.path) }))
  .filter(({ file }) => !file.includes("node_modules") && !QUOTED_TEXTS.has(file));

/** The lines of all documents. */
function readPages(): { place: string; line: string }[] {
  return [".", "docs", "docs/internals", "console", "simulator", "src/net"]
    .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(folder, name)))
    .filter((file) => file.endsWith(".md") && file !== "CONTRIBUTING.md")
    .flatMap((file) =>
      readFileSync(join(ROOT, file), "utf8")
        .split("\n")
        .map((line, index) => ({ place: `${file}:${index + 1}`, line })),
    );
}

describe("a word that is cut by a hyphen", () => {
  // "First- and second-level" is a word that ends later.
  const CUT_WORD = /[a-z]{2,}- (?!and |or |to )[a-z]{2,}/i;

  test("is in no comment, text or test name", () => {
    const cut = sources
      .filter(({ file }) => file !== "test/language.test.ts")
      .flatMap(({ file, text }) => readProse(text).map((prose) => ({ ...prose, file })))
      .filter(({ text }) => CUT_WORD.test(text));
    expect(cut.map(({ file, line, text }) => `${file}:${line} ${text}`)).toEqual([]);
  });

  test("is in no document", () => {
    expect(readPages().filter(({ line }) => CUT_WORD.test(line))).toEqual([]);
  });
});

describe("names in comments", () => {
  /** Names of other programs that comments refer to. */
  const FOREIGN_NAMES = new Set(["equalsIgnoreCase", "nohup", "nonroot", "sun_path"]);
  const NAME = /`#?([A-Za-z_$][\w$]*)(?:\(\))?`/g;

  test("are names of the code, so that a renamed thing is renamed in comments, too", () => {
    const known = new Set(FOREIGN_NAMES);
    for (const { text } of sources)
      for (const name of text.replaceAll(COMMENT, " ").match(/[A-Za-z_$][\w$]*/g) ?? []) known.add(name);
    const unknown = sources
      .filter(({ file }) => file !== "test/language.test.ts")
      .flatMap(({ file, text }) => readProse(text).map((prose) => ({ ...prose, file })))
      .filter(({ text }) => text.startsWith("/"))
      .flatMap(({ file, line, text }) =>
        [...text.matchAll(NAME)]
          .filter(([, name = ""]) => !known.has(name))
          .map(([, name]) => `${file}:${line} ${name}`),
      );
    expect(unknown).toEqual([]);
  });
});

describe("one word for one thing", () => {
  /** A word that is not used in names, and the one that is. */
  const SYNONYMS: readonly { word: RegExp; instead: string }[] = [
    { word: /answer/i, instead: "response" },
    { word: /refus/i, instead: "reject; a refusal is the model's" },
    { word: /changelog/i, instead: "audit log" },
  ];
  /** Names that are data: recorded outcomes, codes, columns, members of JSON and metrics; and the model's refusal. */
  const DATA = new Set([
    "ECONNREFUSED",
    "ERR_POSTGRES_CONNECTION_REFUSED",
    "REFUSAL",
    "REFUSAL_CHANNEL",
    "RefusalPart",
    "bad_answer",
    "refusal",
    "refusalPart",
    "refusals",
    "refused",
    "refused_per_s",
    "refused_requests",
  ]);

  test("texts and documents say audit log", () => {
    const CHANGE_LOG = /\bchange[- ]log\b/i;
    const other = [
      ...sources
        .filter(({ file }) => file !== "test/language.test.ts")
        .flatMap(({ file, text }) =>
          readProse(text).map(({ line, text }) => ({ place: `${file}:${line}`, line: text })),
        ),
      ...readPages(),
    ].filter(({ line }) => CHANGE_LOG.test(line));
    expect(other).toEqual([]);
  });

  test("names use it", () => {
    const other = sources
      .filter(({ file }) => !/^(?:test|release|deploy)\//.test(file))
      .flatMap(({ file, text }) =>
        (readCode(text).match(/[A-Za-z_$][\w$]*/g) ?? []).map((name) => ({ file, name })),
      )
      .filter(({ name }) => !DATA.has(name) && SYNONYMS.some(({ word }) => word.test(name)));
    expect([...new Set(other.map(({ file, name }) => `${file}: ${name}`))]).toEqual([]);
  });
});

describe("vague words", () => {
  test("are found in comments and sentences, not in code and short strings", () => {
    const text = 'const told = "nobody"; // It tells.\nthrow new Error(`it is what whoever asks for.`);';
    expect(readProse(text).filter((prose) => VAGUE_WORDS.test(prose.text))).toEqual([
      { line: 1, text: "// It tells." },
      { line: 2, text: "`it is what whoever asks for.`" },
    ]);
    expect(readCode(text)).toBe("const told = ; \nthrow new Error();");
  });

  test("are in no comment, text or test name", () => {
    const vague = sources
      .filter(({ file }) => file !== "test/language.test.ts")
      .flatMap(({ file, text }) => readProse(text).map((prose) => ({ ...prose, file })))
      .filter(({ text }) => VAGUE_WORDS.test(text));
    expect(vague.map(({ file, line, text }) => `${file}:${line} ${text}`)).toEqual([]);
  });

  test("are no names in production code", () => {
    const vague = sources
      .filter(({ file, isTest }) => !isTest && !/^(?:test|bench)\//.test(file))
      .filter(({ text }) => VAGUE_NAMES.test(readCode(text)));
    expect(vague.map(({ file }) => file)).toEqual([]);
  });

  test("are in no document", () => {
    const vague = readPages().filter(({ line }) => VAGUE_WORDS.test(line));
    expect(vague).toEqual([]);
  });
});

describe("the length of functions", () => {
  const sources = ["src", "simulator", "console", "release"].flatMap((folder) => readSources(folder));
  const functions = sources
    .filter(({ isTest }) => !isTest)
    .flatMap(({ path, text }) =>
      measureFunctions(text).map((one) => ({ ...one, file: relative(ROOT, path) })),
    );
  const describeLong = (max: number) => (one: (typeof functions)[number]) =>
    one.lines > max ? [`${one.file}:${one.line} ${one.name}: ${one.lines} lines`] : [];

  test("functions are found, with their lengths", () => {
    expect(functions.length).toBeGreaterThan(5_000);
    const text = [
      "function open(",
      "  options: Options,",
      "): Connection {",
      "  let isOpen = true;",
      "  return {",
      "    close() {",
      "      isOpen = false;",
      "    },",
      "  };",
      "}",
    ].join("\n");
    expect(measureFunctions(text)).toEqual([
      { name: "open", line: 1, lines: 10, isClosureObject: true },
      { name: "close", line: 6, lines: 3, isClosureObject: false },
    ]);
  });

  test("no function is longer than 70 lines", () => {
    expect(functions.flatMap(describeLong(70))).toEqual([]);
  });

  test("no closure that acts as an object is longer than 60 lines", () => {
    expect(functions.filter(({ isClosureObject }) => isClosureObject).flatMap(describeLong(60))).toEqual([]);
  });
});
