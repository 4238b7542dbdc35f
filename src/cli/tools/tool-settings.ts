/** The settings with which each tool calls the gateway with the tokens of this computer. */

import { join } from "node:path";
import { z } from "zod";
import { fail } from "../command.ts";

export const TOOLS = ["claude", "codex", "gemini", "opencode"] as const;
export type Tool = (typeof TOOLS)[number];

/** The command that prints a token: the path of this program, because tools do not use a shell's PATH. */
const SELF: readonly string[] = Bun.isStandaloneExecutable
  ? [process.execPath]
  : [join(import.meta.dir, "../../../bin/model-gateway")];

function tokenCommand(url: string): readonly string[] {
  return [...SELF, "token", "--url", url];
}

/** The name of the gateway in the files of tools. */
const PROVIDER = "model-gateway";

const jsonObject = z.record(z.string(), z.unknown());
type JsonObject = z.output<typeof jsonObject>;

function readObject(value: unknown): JsonObject {
  return jsonObject.safeParse(value).data ?? {};
}

/** Changes a JSON file, and keeps what it does not concern. */
export function editJson(
  path: string,
  before: string | null,
  edit: (settings: JsonObject) => JsonObject,
): string {
  let settings: JsonObject;
  try {
    settings = jsonObject.parse(before === null || before.trim() === "" ? {} : JSON.parse(before));
  } catch {
    return fail(
      `${path} is not a JSON object, or has comments.`,
      "Correct the file, or add the settings yourself.",
    );
  }
  return `${JSON.stringify(edit(settings), null, 2)}\n`;
}

/** A shell reads it: Claude Code runs its helper with one. */
function quote(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(" ");
}

function claudeSettings(url: string) {
  return {
    apiKeyHelper: quote(tokenCommand(url)),
    env: { ANTHROPIC_BASE_URL: url, CLAUDE_CODE_API_KEY_HELPER_TTL_MS: "300000" },
  };
}

export function editClaude(url: string, settings: JsonObject): JsonObject {
  const { env, ...added } = claudeSettings(url);
  return { ...settings, ...added, env: { ...readObject(settings.env), ...env } };
}

/** For `/login`: only the managed settings of the machine may name the gateway. */
export function editClaudeMachine(url: string, settings: JsonObject): JsonObject {
  return { ...settings, forceLoginMethod: "gateway", forceLoginGatewayUrl: url };
}

export function editGemini(settings: JsonObject): JsonObject {
  const security = readObject(settings.security);
  return {
    ...settings,
    security: { ...security, auth: { ...readObject(security.auth), selectedType: "gemini-api-key" } },
  };
}

export function editOpencode(url: string, models: readonly string[], settings: JsonObject): JsonObject {
  const provider = {
    npm: "@ai-sdk/openai-compatible",
    name: "Model Gateway",
    options: { baseURL: `${url}/v1`, apiKey: "{env:MODEL_GATEWAY_TOKEN}" },
    models: Object.fromEntries(models.map((id) => [id, { name: id }])),
  };
  return { ...settings, provider: { ...readObject(settings.provider), [PROVIDER]: provider } };
}

const BEGIN = "# model-gateway: begin";
const END = "# model-gateway: end";
const BLOCK = new RegExp(`\\n*${BEGIN}\\n[^]*?${END}\\n?`);

/** The line that begins a table of TOML. */
const TABLE = /^[ \t]*\[[^\]\n]+\]{1,2}[ \t]*(?:#.*)?$/m;

/** The provider of Codex as `key = value` pairs, for its file and for its command line. */
function codexProvider(url: string): readonly (readonly [key: string, value: string])[] {
  const [command = "", ...args] = tokenCommand(url);
  return [
    ["name", JSON.stringify("Model Gateway")],
    ["base_url", JSON.stringify(`${url}/v1`)],
    ["wire_api", JSON.stringify("responses")],
    ["supports_websockets", "true"],
    [
      "auth",
      `{ command = ${JSON.stringify(command)}, args = ${JSON.stringify(args)}, refresh_interval_ms = 300000 }`,
    ],
  ];
}

/** Keys of the file stand before its first table, so the choice of the provider is at the top. */
export function editCodex(url: string, before: string | null): string {
  const text = (before ?? "").replace(BLOCK, "\n");
  // Profiles, which are tables, may have a provider of their own.
  const tables = text.search(TABLE);
  const end = tables === -1 ? text.length : tables;
  const rest = text.slice(0, end).replace(/^model_provider\s*=.*\n?/m, "") + text.slice(end);
  if (rest.includes(`[model_providers.${PROVIDER}]`))
    fail(
      `config.toml of Codex already has a provider "${PROVIDER}".`,
      "Remove it, and run the command again.",
    );
  const block = [
    BEGIN,
    `[model_providers.${PROVIDER}]`,
    ...codexProvider(url).map(([key, value]) => `${key} = ${value}`),
    END,
  ];
  return `model_provider = "${PROVIDER}"\n${rest.trimEnd()}\n\n${block.join("\n")}\n`;
}

interface ToolRun {
  readonly args: readonly string[];
  /** Undefined: the tool does not get the variable of this shell. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Claude Code prefers these to its helper, and would send the credential of another provider to the gateway. */
export const CLAUDE_CREDENTIALS = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] as const;

/** The arguments and variables with which a tool runs once, without changing its files. */
export const RUN_ONCE: Readonly<Record<Tool, (url: string, token: string) => ToolRun>> = {
  claude(url) {
    const { env, ...settings } = claudeSettings(url);
    const others = Object.fromEntries(CLAUDE_CREDENTIALS.map((name) => [name, undefined]));
    return { args: ["--settings", JSON.stringify(settings)], env: { ...env, ...others } };
  },
  codex(url) {
    const settings = [
      ["model_provider", JSON.stringify(PROVIDER)],
      ...codexProvider(url).map(([key, value]) => [`model_providers.${PROVIDER}.${key}`, value]),
    ];
    return { args: settings.flatMap(([key, value]) => ["-c", `${key}=${value}`]), env: {} };
  },
  gemini: (url, token) => ({ args: [], env: { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: token } }),
  opencode: (_url, token) => ({ args: [], env: { MODEL_GATEWAY_TOKEN: token } }),
};

/** Tools that cannot call a command for a token get it at their start. */
export const GETS_TOKEN_AT_START: ReadonlySet<Tool> = new Set<Tool>(["gemini", "opencode"]);
