/**
 * Random bodies with repeated members, other spellings, escaped names and unknown values: none may pass a rule. The
 * judge has a parser of its own, and reads every member that any decoder might read.
 */

import { expect, test } from "bun:test";
import { wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";
import { applyRules } from "./apply-rules.ts";

/** `HOSTILE_BODIES=100000 bun test …` tries more. */
const BODIES = Number(process.env.HOSTILE_BODIES ?? 20_000);

const RULES: BodyRules = {
  inputTokensMax: null,
  outputTokens: null,
  effort: { max: "low", over: "lower" },
  serviceTiers: ["auto", "default"],
  tools: { deny: ["web_search", "mcp"], over: "drop" },
  inputsMax: { images: 1, files: 0, urls: 0, audio: 0 },
  forced: ["store", "background"],
};

const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
type Tested = (typeof DIALECTS)[number];
const ENDPOINTS = {
  responses: lookUpEndpoint("responses"),
  chat: lookUpEndpoint("chat.completions"),
  messages: lookUpEndpoint("messages"),
  gemini: { ...lookUpEndpoint("gemini.generate_content"), model: "m" },
} as const;

/** A linear congruential generator: the same bodies in every run. */
function openRandom(seed: number) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return {
    chance: (share: number) => next() < share,
    pick: <Value>(values: readonly Value[]): Value => values[Math.floor(next() * values.length)] as Value,
  };
}
type Random = ReturnType<typeof openRandom>;

/** The text of a member name: plain, in another case, or with an escaped letter. */
function writeName(random: Random, name: string): string {
  if (random.chance(0.04)) return JSON.stringify(name[0]?.toUpperCase() + name.slice(1));
  if (random.chance(0.02)) return JSON.stringify(name.replace("s", "ſ").replace("k", "K"));
  if (random.chance(0.03) && name.includes("_"))
    return JSON.stringify(name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()));
  if (random.chance(0.03))
    return JSON.stringify(name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
  if (random.chance(0.08)) return `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}"`;
  return JSON.stringify(name);
}

type Pair = readonly [name: string, json: string];

function writeObject(random: Random, pairs: readonly Pair[]): string {
  const written = pairs.filter(() => random.chance(0.85));
  for (const pair of pairs) if (random.chance(0.06)) written.push(pair);
  const space = random.chance(0.1) ? " \n" : "";
  return `{${space}${written.map(([name, json]) => `${writeName(random, name)}${space}:${json}`).join(`${space},`)}}`;
}

const text = (value: string) => JSON.stringify(value);
const EFFORTS = ["none", "low", "high", "xhigh", "HIGH", "extreme", ""].map(text).concat("9", "null", "{}");
const BUDGETS = ["0", "1024", "2048", "4096", "99999", "-1", "1e9", '"8000"', "null"];
const TIERS = ["auto", "default", "priority", "flex", "AUTO", "SERVICE_TIER_PRIORITY"]
  .map(text)
  .concat("null", "3");
const TYPES = [
  "function",
  "web_search",
  "web_search_preview",
  "web_search_20250305",
  "mcp",
  "custom",
  "future_tool",
  "Web_Search",
];
const FLAGS = ["true", "false", "null", '"true"'];

function writeEffort(random: Random): Pair[] {
  const effort = () => random.pick(EFFORTS);
  const thinking = writeObject(random, [
    ["type", text(random.pick(["enabled", "disabled", "adaptive", "turbo"]))],
    ["budget_tokens", random.pick(BUDGETS)],
  ]);
  return [
    [
      "reasoning",
      writeObject(random, [
        ["effort", effort()],
        ["max_tokens", random.pick(BUDGETS)],
      ]),
    ],
    ["reasoning_effort", effort()],
    ["output_config", writeObject(random, [["effort", effort()]])],
    ["thinking", thinking],
    [
      "generationConfig",
      writeObject(random, [
        [
          "thinkingConfig",
          writeObject(random, [
            ["thinkingLevel", effort()],
            ["thinkingBudget", random.pick(BUDGETS)],
          ]),
        ],
      ]),
    ],
  ];
}

function writeTools(random: Random): Pair[] {
  const one = () => {
    const type = random.pick(TYPES);
    return writeObject(random, [
      ["type", text(type)],
      ["name", text(type)],
      ["description", text("web_search")],
    ]);
  };
  const google = () =>
    writeObject(random, [
      ["functionDeclarations", "[]"],
      ["googleSearch", "{}"],
      ["codeExecution", "{}"],
    ]);
  return [
    ["tools", `[${[one(), one(), random.chance(0.3) ? google() : one()].join(",")}]`],
    ["web_search_options", "{}"],
    ["mcp_servers", "[{}]"],
  ];
}

function writeContent(random: Random, dialect: Tested): Pair {
  const url = text(random.pick(["data:image/png;base64,AA", "https://example.com/a"]));
  const parts = [
    `{"type":"text","text":"image_url"}`,
    writeObject(random, [
      ["type", text("input_image")],
      ["image_url", url],
    ]),
    writeObject(random, [
      ["type", text("image_url")],
      ["image_url", writeObject(random, [["url", url]])],
    ]),
    writeObject(random, [
      ["type", text("image")],
      [
        "source",
        writeObject(random, [
          ["type", text(random.pick(["url", "base64"]))],
          ["url", url],
        ]),
      ],
    ]),
    writeObject(random, [
      ["type", text("input_file")],
      ["file_id", text("f")],
    ]),
    writeObject(random, [
      ["inlineData", writeObject(random, [["mimeType", text(random.pick(["image/png", "audio/wav"]))]])],
    ]),
  ];
  const list = `[${[random.pick(parts), random.pick(parts)].join(",")}]`;
  if (dialect === "gemini") return ["contents", `[{"parts":${list}}]`];
  return [dialect === "responses" ? "input" : "messages", `[{"role":"user","content":${list}}]`];
}

function writeBody(random: Random, dialect: Tested): string {
  const optional: Pair[] = [
    ...writeEffort(random),
    ...writeTools(random),
    ["service_tier", random.pick(TIERS)],
    ["speed", random.pick(TIERS)],
    ["serviceTier", random.pick(TIERS)],
    ["store", random.pick(FLAGS)],
    ["background", random.pick(FLAGS)],
  ];
  const chosen = optional.filter(() => random.chance(0.25));
  const required: Pair[] = [["model", '"m"'], ["max_tokens", "100"], writeContent(random, dialect)];
  const body = [...required, ...chosen].map(([name, json]) => `${JSON.stringify(name)}:${json}`);
  for (const [name, json] of chosen) if (random.chance(0.03)) body.push(`${writeName(random, name)}:${json}`);
  return `{${body.join(",")}}`;
}

// The judge.

type Tree =
  | { readonly pairs: readonly (readonly [string, Tree])[] }
  | { readonly items: readonly Tree[] }
  | string
  | number
  | boolean
  | null;

/** A recursive parser that keeps repeated members. It reads valid JSON only. */
function parseTree(json: string): Tree {
  let at = 0;
  const space = () => {
    while (/\s/.test(json[at] ?? "x")) at++;
  };
  const string = (): string => {
    const from = at++;
    while (json[at] !== '"') at += json[at] === "\\" ? 2 : 1;
    return JSON.parse(json.slice(from, ++at));
  };
  const list = <One>(close: string, read: () => One): One[] => {
    const found: One[] = [];
    at++;
    for (space(); json[at] !== close; space()) {
      if (json[at] === ",") at++;
      space();
      found.push(read());
    }
    at++;
    return found;
  };
  const value = (): Tree => {
    space();
    if (json[at] === '"') return string();
    if (json[at] === "[") return { items: list("]", value) };
    if (json[at] === "{")
      return {
        pairs: list("}", () => {
          const name = string();
          space();
          at++;
          return [name, value()] as const;
        }),
      };
    const [literal = ""] = /^[\w.+-]+/.exec(json.slice(at)) ?? [];
    at += literal.length;
    return JSON.parse(literal);
  };
  return value();
}

/** Names that some decoder takes for the same member. */
function canonical(name: string, dialect: Tested): string {
  if (dialect === "gemini") return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return name.replaceAll("ſ", "s").replaceAll("K", "k").toLowerCase();
}

function findAll(tree: Tree, [first, ...rest]: readonly string[], dialect: Tested): Tree[] {
  if (first === undefined) return [tree];
  if (typeof tree !== "object" || tree === null) return [];
  if (first === "*") return "items" in tree ? tree.items.flatMap((item) => findAll(item, rest, dialect)) : [];
  if (!("pairs" in tree)) return [];
  return tree.pairs
    .filter(([name]) => canonical(name, dialect) === first)
    .flatMap(([, value]) => findAll(value, rest, dialect));
}

const WORD_PLACES: Readonly<Record<Tested, readonly string[]>> = {
  responses: ["reasoning.effort"],
  chat: ["reasoning.effort", "reasoning_effort"],
  messages: ["output_config.effort"],
  gemini: ["generationConfig.thinkingConfig.thinkingLevel"],
};
const BUDGET_PLACES: Readonly<Record<Tested, readonly string[]>> = {
  responses: [],
  chat: ["reasoning.max_tokens", "thinking.budget_tokens"],
  messages: ["thinking.budget_tokens"],
  gemini: ["generationConfig.thinkingConfig.thinkingBudget"],
};
const TIER_PLACES: Readonly<Record<Tested, readonly string[]>> = {
  responses: ["service_tier"],
  chat: ["service_tier"],
  messages: ["service_tier", "speed"],
  gemini: ["serviceTier"],
};

function judge(json: string, dialect: Tested): string[] {
  const tree = parseTree(json);
  const at = (path: string) => findAll(tree, path.split("."), dialect);
  const found: string[] = [];
  const check = (name: string, isBroken: boolean) => {
    if (isBroken) found.push(name);
  };
  for (const word of WORD_PLACES[dialect].flatMap(at))
    check("effort", word !== null && !["none", "minimal", "low"].includes(String(word).toLowerCase()));
  for (const budget of BUDGET_PLACES[dialect].flatMap(at))
    check("budget", budget !== null && !(typeof budget === "number" && budget >= 0 && budget <= 2_048));
  if (dialect === "messages" && at("thinking.type").includes("adaptive"))
    check("adaptive", at("output_config.effort").length === 0);
  for (const tier of TIER_PLACES[dialect].flatMap(at))
    check("tier", tier !== null && !["auto", "default"].includes(String(tier).toLowerCase()));
  for (const type of dialect === "gemini" ? [] : at("tools.*.type"))
    check("tool", type !== "function" && type !== "custom");
  if (dialect === "gemini") check("search", at("tools.*.googleSearch").length > 0);
  if (dialect === "chat")
    check(
      "options",
      at("web_search_options").some((value) => value !== null),
    );
  if (dialect === "messages")
    check(
      "mcp",
      at("mcp_servers").some((value) => value !== null),
    );
  if (dialect === "responses")
    check("store", !at("store").every((value) => value === false) || at("store").length === 0);
  if (dialect === "chat")
    check(
      "store",
      at("store").some((value) => value !== false && value !== null),
    );
  if (dialect === "responses")
    check(
      "background",
      at("background").some((value) => value !== false && value !== null),
    );
  judgeContent(at, dialect, check);
  return found;
}

function judgeContent(
  at: (path: string) => Tree[],
  dialect: Tested,
  check: (name: string, isBroken: boolean) => void,
): void {
  if (dialect === "gemini") {
    const types = at("contents.*.parts.*.inlineData.mimeType");
    check("images", types.filter((type) => String(type).startsWith("image/")).length > 1);
    check(
      "audio",
      types.some((type) => String(type).startsWith("audio/")),
    );
    return;
  }
  const parts = `${dialect === "responses" ? "input" : "messages"}.*.content.*`;
  const urls = [...at(`${parts}.image_url`), ...at(`${parts}.image_url.url`)];
  check(
    "urls",
    urls.some((url) => typeof url === "string" && !url.startsWith("data:")),
  );
  const isRemote = (part: Tree) =>
    findAll(part, ["type"], dialect).includes("image") &&
    findAll(part, ["source", "type"], dialect).includes("url");
  check("sources", at(parts).some(isRemote));
  check("files", at(`${parts}.file_id`).length > 0);
  check("images", at(`${parts}.image_url`).length > 1);
}

test(
  `none of ${BODIES} hostile bodies passes a rule`,
  () => {
    const random = openRandom(7);
    const limits = { depthMax: 128, modelNameCharsMax: 200 };
    const outcomes = { passed: 0, changed: 0, rejected: 0 };
    const broken: { dialect: Tested; body: string; sent: string; rules: string[] }[] = [];
    for (let i = 0; i < BODIES; i++) {
      const dialect = random.pick(DIALECTS);
      const body = writeBody(random, dialect);
      const endpoint = ENDPOINTS[dialect];
      try {
        const scanned = readModelRequest(wholeBytesPart(Buffer.from(body)), endpoint, limits).scannedBody();
        if (scanned === null) throw new Error("not JSON");
        const { bytes } = applyRules(scanned, RULES, endpoint);
        const sent = bytes === null ? body : new TextDecoder().decode(bytes);
        outcomes[bytes === null ? "passed" : "changed"]++;
        const rules = judge(sent, dialect);
        if (rules.length > 0) broken.push({ dialect, body, sent, rules });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        outcomes.rejected++;
      }
    }
    expect({ count: broken.length, first: broken.slice(0, 3) }).toEqual({ count: 0, first: [] });
    // All three outcomes occur often, so that the test means something.
    for (const count of Object.values(outcomes)) expect(count).toBeGreaterThan(BODIES / 100);
  },
  { timeout: 120_000 },
);
