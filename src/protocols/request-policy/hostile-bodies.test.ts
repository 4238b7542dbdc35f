/**
 * None of many random bodies may pass a rule. The judge has a parser of its own, and reads every member that any decoder
 * might read.
 */

import { expect, test } from "bun:test";
import { wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";
import { applyRules } from "./apply-rules.ts";
import { DIALECTS, openRandom, type Tested, writeBody } from "./hostile-bodies.test-support.ts";

/** `HOSTILE_BODIES=100000 HOSTILE_SEED=8 bun test …` tries more, and others. */
const BODIES = Number(process.env.HOSTILE_BODIES ?? 20_000);
const SEED = Number(process.env.HOSTILE_SEED ?? 7);
const OUTPUT_MAX = 1_500;

const RULES: BodyRules = {
  inputTokensMax: null,
  outputTokens: { max: OUTPUT_MAX, over: "lower" },
  effort: { max: "low", over: "lower" },
  serviceTiers: ["auto", "default"],
  tools: { deny: ["web_search", "mcp"], over: "drop" },
  inputsMax: { images: 1, files: 0, urls: 0, audio: 0 },
  forced: ["store", "background"],
};

const ENDPOINTS = {
  responses: lookUpEndpoint("responses"),
  chat: lookUpEndpoint("chat.completions"),
  messages: lookUpEndpoint("messages"),
  gemini: { ...lookUpEndpoint("gemini.generate_content"), model: "m" },
} as const;

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
  chat: ["reasoning.effort", "reasoning_effort", "chat_template_kwargs.reasoning_effort"],
  messages: ["output_config.effort"],
  gemini: ["generationConfig.thinkingConfig.thinkingLevel"],
};
const BUDGET_PLACES: Readonly<Record<Tested, readonly string[]>> = {
  responses: [],
  chat: [
    "reasoning.max_tokens",
    "thinking.budget_tokens",
    "thinking_budget",
    "chat_template_kwargs.thinking_budget",
  ],
  messages: ["thinking.budget_tokens"],
  gemini: ["generationConfig.thinkingConfig.thinkingBudget"],
};
/** What turns thinking on in Chat Completions, and what must bound it then. */
const SWITCHES = [
  ["enable_thinking", ["thinking_budget"]],
  ["reasoning.enabled", ["reasoning.effort", "reasoning.max_tokens"]],
  ["chat_template_kwargs.enable_thinking", ["chat_template_kwargs.thinking_budget"]],
  ["chat_template_kwargs.thinking", ["chat_template_kwargs.thinking_budget"]],
] as const;
const TIER_PLACES: Readonly<Record<Tested, readonly string[]>> = {
  responses: ["service_tier"],
  chat: ["service_tier"],
  messages: ["service_tier", "speed"],
  gemini: ["serviceTier"],
};

const TOOL_PLACES = ["tools.*", "tools.*.tools.*", "input.*.tools.*", "input.*.tools.*.tools.*"].map(
  (place) => `${place}.type`,
);
const ALLOWED_TOOL = /^(?:function|custom|namespace|memory_\d+|text_editor_\d+|file_search)$/;

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
  const efforts = at("output_config.effort");
  if (dialect === "messages" && at("thinking.type").includes("adaptive"))
    check("adaptive", efforts.length === 0 || efforts.includes(null));
  const isBounded = (paths: readonly string[]) =>
    paths.some((path) => at(path).some((value) => value !== null));
  for (const type of dialect === "chat" ? at("thinking.type") : [])
    check("mode", type !== "disabled" && !(type === "enabled" && isBounded(["thinking.budget_tokens"])));
  for (const [name, bounds] of dialect === "chat" ? SWITCHES : [])
    check("switch", at(name).some((value) => value !== false && value !== null) && !isBounded(bounds));
  if (dialect === "chat")
    check(
      "variable",
      at("chat_template_kwargs.think_harder").some((value) => value !== false && value !== null),
    );
  // A limit of the client that is lowered must leave room for the thinking below it.
  if (dialect === "messages" && at("max_tokens").some((tokens) => Number(tokens) > OUTPUT_MAX))
    check(
      "thinking",
      at("thinking.budget_tokens").some((tokens) => Number(tokens) >= OUTPUT_MAX),
    );
  for (const tier of TIER_PLACES[dialect].flatMap(at))
    check("tier", tier !== null && !["auto", "default"].includes(String(tier).toLowerCase()));
  for (const type of dialect === "gemini" ? [] : TOOL_PLACES.flatMap(at))
    check("tool", !ALLOWED_TOOL.test(String(type)));
  if (dialect === "gemini")
    for (const name of ["googleSearch", "mcpServers", "futureTool"])
      check("google", at(`tools.*.${name}`).length + at(`tools.${name}`).length > 0);
  const opaque = dialect === "gemini" ? "cachedContent" : dialect === "chat" ? "extra_body" : "prompt";
  if (dialect !== "messages")
    check(
      opaque,
      at(opaque).some((value) => value !== null),
    );
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
  if (dialect === "chat" || dialect === "gemini")
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

type Part = Extract<Tree, { readonly pairs: unknown }>;

const CONTAINERS: Readonly<Record<"openai" | "google", readonly string[]>> = {
  openai: ["content", "output", "source"],
  google: ["parts", "functionResponse"],
};

/** Objects that some decoder takes for a part, in any depth. */
function listParts(tree: Tree, dialect: Tested): Part[] {
  if (typeof tree !== "object" || tree === null) return [];
  if ("items" in tree) return tree.items.flatMap((item) => listParts(item, dialect));
  const containers = CONTAINERS[dialect === "gemini" ? "google" : "openai"];
  const inner = containers.flatMap((name) => findAll(tree, [name], dialect));
  return [tree, ...inner.flatMap((value) => listParts(value, dialect))];
}

const IMAGE_TYPES: ReadonlySet<Tree> = new Set(["image", "input_image", "image_url"]);

function judgeContent(
  at: (path: string) => Tree[],
  dialect: Tested,
  check: (name: string, isBroken: boolean) => void,
): void {
  const parts = at(
    { responses: "input", chat: "messages", messages: "messages", gemini: "contents" }[dialect],
  ).flatMap((tree) => listParts(tree, dialect));
  const all = (path: string) => parts.flatMap((part) => findAll(part, path.split("."), dialect));
  if (dialect === "gemini") {
    const types = [...all("inlineData.mimeType"), ...all("fileData.mimeType")];
    check("images", types.filter((type) => String(type).startsWith("image/")).length > 1);
    check(
      "audio",
      types.some((type) => String(type).startsWith("audio/")),
    );
    check("stored", all("fileData").length > 0);
    return;
  }
  const urls = [...all("image_url"), ...all("image_url.url")];
  check(
    "urls",
    urls.some((url) => typeof url === "string" && !url.startsWith("data:")),
  );
  const isRemote = (part: Tree) =>
    findAll(part, ["type"], dialect).includes("image") &&
    findAll(part, ["source", "type"], dialect).includes("url");
  check("sources", parts.some(isRemote));
  check("files", all("file_id").length + all("document_url").length > 0);
  check("audio", all("input_audio").length > 0);
  const isImage = (part: Tree) =>
    findAll(part, ["type"], dialect).some((type) => IMAGE_TYPES.has(type)) ||
    findAll(part, ["image_url"], dialect).length > 0;
  check("images", parts.filter(isImage).length > 1);
}

test(
  `none of ${BODIES} hostile bodies passes a rule`,
  () => {
    const random = openRandom(SEED);
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
        const { changed, outputCap } = applyRules(scanned, RULES, endpoint);
        expect(outputCap).toBe(OUTPUT_MAX);
        const sent = changed === null ? body : new TextDecoder().decode(changed.bytes);
        outcomes[changed === null ? "passed" : "changed"]++;
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
