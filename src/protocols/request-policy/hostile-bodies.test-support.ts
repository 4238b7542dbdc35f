/**
 * Writes random bodies that try to pass a rule: repeated members, other spellings, escaped letters, unknown values, in
 * every place where a dialect has tools, efforts or inputs.
 */

export const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
export type Tested = (typeof DIALECTS)[number];

/** A linear congruential generator: the same bodies in every run. */
export function openRandom(seed: number) {
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
export type Random = ReturnType<typeof openRandom>;

type Pair = readonly [name: string, json: string];

/** The text of a member name: plain, in another case, in the other spelling, or with an escaped letter. */
function writeName(random: Random, name: string): string {
  if (random.chance(0.04)) return quote(name[0]?.toUpperCase() + name.slice(1));
  if (random.chance(0.02)) return quote(name.replace("s", "ſ").replace("k", "K"));
  if (random.chance(0.03) && name.includes("_"))
    return quote(name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()));
  if (random.chance(0.03)) return quote(name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
  return random.chance(0.08) ? escapeLetter(name) : quote(name);
}

const quote = (value: string) => JSON.stringify(value);
const escapeLetter = (value: string) => `"\\u00${value.charCodeAt(0).toString(16)}${value.slice(1)}"`;

function writeObject(random: Random, pairs: readonly Pair[]): string {
  const written = pairs.filter(() => random.chance(0.85));
  for (const pair of pairs) if (random.chance(0.06)) written.push(pair);
  const space = random.chance(0.1) ? " \n" : "";
  return `{${space}${written.map(([name, json]) => `${writeName(random, name)}${space}:${json}`).join(`${space},`)}}`;
}

/** A string, with its first letter escaped now and then. */
function pickText(random: Random, values: readonly string[]): string {
  const value = random.pick(values);
  return value !== "" && random.chance(0.1) ? escapeLetter(value) : quote(value);
}

const EFFORTS = ["none", "low", "high", "xhigh", "HIGH", "extreme", ""].map(quote).concat("9", "null", "{}");
const BUDGETS = ["0", "1024", "2048", "4096", "99999", "-1", "1e9", '"8000"', "null"];
const OUTPUTS = ["100", "1500", "4000", "-1", '"9000"', "null"];
const TIERS = ["auto", "default", "priority", "flex", "AUTO", "SERVICE_TIER_PRIORITY"]
  .map(quote)
  .concat("null", "3");
const FLAGS = ["true", "false", "null", '"true"'];

/** Types of tools of all dialects: of clients, denied, and unknown. */
const TYPES = [
  ...["function", "custom", "memory_20250818", "text_editor_20250728", "file_search"],
  ...["web_search", "web_search_preview", "web_search_20250305", "mcp", "mcp_toolset"],
  ...["future_tool", "Web_Search", "browser_search"],
];
const GEMINI_TOOLS = ["functionDeclarations", "googleSearch", "codeExecution", "mcpServers", "futureTool"];

function writeEffort(random: Random): Pair[] {
  const effort = () => random.pick(EFFORTS);
  const thinkingConfig = writeObject(random, [
    ["thinkingLevel", effort()],
    ["thinkingBudget", random.pick(BUDGETS)],
  ]);
  const reasoning = writeObject(random, [
    ["effort", effort()],
    ["max_tokens", random.pick(BUDGETS)],
    ["enabled", random.pick(FLAGS)],
  ]);
  const variables = writeObject(random, [
    ["enable_thinking", random.pick(FLAGS)],
    ["thinking", random.pick(FLAGS)],
    ["thinking_budget", random.pick(BUDGETS)],
    ["reasoning_effort", effort()],
    [random.chance(0.2) ? "think_harder" : "custom", random.pick(FLAGS)],
  ]);
  const thinking = writeObject(random, [
    ["type", pickText(random, ["enabled", "disabled", "adaptive", "turbo"])],
    ["budget_tokens", random.pick(BUDGETS)],
  ]);
  const config = writeObject(random, [
    ["thinkingConfig", thinkingConfig],
    ["maxOutputTokens", random.pick(OUTPUTS)],
  ]);
  return [
    ["reasoning", reasoning],
    ["reasoning_effort", effort()],
    ["output_config", writeObject(random, [["effort", effort()]])],
    ["thinking", thinking],
    ["thinking_budget", random.pick(BUDGETS)],
    ["enable_thinking", random.pick(FLAGS)],
    ["chat_template_kwargs", variables],
    ["generationConfig", config],
    [
      "extra_body",
      writeObject(random, [["google", writeObject(random, [["thinking_config", thinkingConfig]])]]),
    ],
  ];
}

function writeTool(random: Random): string {
  if (random.chance(0.15))
    return writeObject(random, [
      ["type", '"namespace"'],
      ["tools", `[${[writeTypedTool(random), writeTypedTool(random)].join(",")}]`],
    ]);
  return writeTypedTool(random);
}

function writeTypedTool(random: Random): string {
  const type = pickText(random, TYPES);
  return writeObject(random, [
    ["type", random.chance(0.03) ? "null" : type],
    ["name", type],
    ["description", quote("web_search")],
  ]);
}

function writeTools(random: Random): Pair[] {
  const google = () =>
    writeObject(
      random,
      GEMINI_TOOLS.filter(() => random.chance(0.5)).map((name) => [name, "{}"]),
    );
  const list = [writeTool(random), writeTool(random), random.chance(0.3) ? google() : writeTool(random)];
  return [
    ["tools", random.chance(0.1) ? google() : `[${list.join(",")}]`],
    ["web_search_options", "{}"],
    ["mcp_servers", "[{}]"],
    [
      "prompt",
      writeObject(random, [
        ["id", '"p"'],
        ["variables", `{"a":${writePart(random)}}`],
      ]),
    ],
    ["cachedContent", quote("cachedContents/1")],
  ];
}

/** A part of a conversation: of any dialect, since decoders may ignore what they do not know. */
function writePart(random: Random, depth = 0): string {
  const url = pickText(random, ["data:image/png;base64,AA", "https://example.com/a"]);
  const source = () =>
    writeObject(random, [
      ["type", pickText(random, ["url", "base64"])],
      ["url", url],
    ]);
  const type = (...names: string[]): Pair => ["type", pickText(random, names)];
  const media = (name: string) =>
    writeObject(random, [
      ["mimeType", quote(random.pick(["image/png", "audio/wav"]))],
      [name, url],
    ]);
  const forms: (() => readonly Pair[])[] = [
    () => [type("text", "input_text"), ["text", quote("image_url")]],
    () => [type("input_image", "image_url"), ["image_url", url]],
    () => [type("image_url"), ["image_url", writeObject(random, [["url", url]])]],
    () => [type("image", "document"), ["source", source()]],
    () => [type("input_file"), ["file_id", quote("f")]],
    () => [type("document_url"), ["document_url", url]],
    () => [type("input_audio"), ["input_audio", "{}"]],
    () => [["inlineData", media("data")]],
    () => [["fileData", media("fileUri")]],
  ];
  const inner = () => `[${[writePart(random, depth + 1), writePart(random, depth + 1)].join(",")}]`;
  const containers: (() => readonly Pair[])[] = [
    () => [type("tool_result"), ["content", inner()]],
    () => [
      type("document"),
      [
        "source",
        writeObject(random, [
          ["type", '"content"'],
          ["content", inner()],
        ]),
      ],
    ],
    () => [
      [
        "functionResponse",
        writeObject(random, [
          ["name", '"f"'],
          ["parts", inner()],
        ]),
      ],
    ],
  ];
  return writeObject(random, random.pick(depth < 2 ? [...forms, ...containers] : forms)());
}

function writeConversation(random: Random, dialect: Tested): Pair {
  const parts = `[${[writePart(random), writePart(random)].join(",")}]`;
  if (dialect === "gemini") {
    const content = `{"parts":${random.chance(0.1) ? writePart(random) : parts}}`;
    return ["contents", random.chance(0.2) ? content : `[${content}]`];
  }
  const message = `{"role":"user","content":${parts}}`;
  if (dialect !== "responses") return ["messages", `[${message}]`];
  const items = [message];
  if (random.chance(0.3))
    items.push(
      writeObject(random, [
        ["type", pickText(random, ["additional_tools", "tool_search_output"])],
        ["tools", `[${[writeTool(random), writeTool(random)].join(",")}]`],
      ]),
    );
  if (random.chance(0.3)) items.push(`{"type":"function_call_output","output":${parts}}`);
  return ["input", `[${items.join(",")}]`];
}

export function writeBody(random: Random, dialect: Tested): string {
  const optional: Pair[] = [
    ...writeEffort(random),
    ...writeTools(random),
    ["service_tier", random.pick(TIERS)],
    ["speed", random.pick(TIERS)],
    ["serviceTier", random.pick(TIERS)],
    ["store", random.pick(FLAGS)],
    ["background", random.pick(FLAGS)],
  ];
  const chosen = optional.filter(([name]) => random.chance(RARE.has(name) ? 0.03 : 0.25));
  const required: Pair[] = [
    ["model", '"m"'],
    ["max_tokens", random.pick(OUTPUTS)],
    writeConversation(random, dialect),
  ];
  const body = [...required, ...chosen].map(([name, json]) => `${quote(name)}:${json}`);
  for (const [name, json] of chosen) if (random.chance(0.03)) body.push(`${writeName(random, name)}:${json}`);
  return `{${body.join(",")}}`;
}

/** Members that are always rejected, so that other rules are reached. */
const RARE: ReadonlySet<string> = new Set(["prompt", "cachedContent", "extra_body"]);
