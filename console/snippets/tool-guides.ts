/**
 * How to connect a tool to the gateway: the files and commands that it reads. The key comes from an environment
 * variable where the tool can read one. docs/clients.md has more about each tool.
 */

import { buildExample, type ExampleModel, type Interface } from "./example-request.ts";
import { curl } from "./http-snippets.ts";
import { codex, python, typescript } from "./sdk-snippets.ts";
import { json, KEY_VARIABLE, quoted } from "./snippet.ts";

export interface GuideModel extends ExampleModel {
  readonly context_tokens: number | null;
  readonly max_output_tokens: number | null;
}

export interface GuideBlock {
  /** The file or the field that it belongs to; null for a command. */
  readonly place: string | null;
  readonly language: string;
  readonly code: string;
}

/** `origin` is the address of the gateway without `/v1`. */
interface GuideTarget {
  readonly origin: string;
  readonly model: GuideModel;
}

export interface ToolGuide {
  readonly id: string;
  /** Names of products are the same in every language. */
  readonly label: string;
  /** The interfaces that the tool can use, the best one first. */
  readonly interfaces: readonly Interface[];
  write(target: GuideTarget): readonly GuideBlock[];
}

const PROMPT = "Say hello in one sentence.";
/** For models whose limits are not configured. */
const CONTEXT_TOKENS = 128_000;
const OUTPUT_TOKENS = 16_000;

export const TOOL_GUIDES = [
  { id: "claudeCode", label: "Claude Code", interfaces: ["messages"], write: claudeCode },
  { id: "codex", label: "Codex", interfaces: ["responses"], write: codexFile },
  { id: "geminiCli", label: "gemini-cli", interfaces: ["gemini"], write: geminiCli },
  { id: "opencode", label: "opencode", interfaces: ["chat"], write: opencode },
  { id: "cursor", label: "Cursor", interfaces: ["chat"], write: cursor },
  { id: "vsCode", label: "VS Code", interfaces: ["chat", "responses", "messages"], write: vsCode },
  { id: "openWebUi", label: "Open WebUI", interfaces: ["chat"], write: openWebUi },
  { id: "libreChat", label: "LibreChat", interfaces: ["chat"], write: libreChat },
  {
    id: "python",
    label: "Python",
    interfaces: ["responses", "chat"],
    write: (target) => sdk(target, "python"),
  },
  {
    id: "typescript",
    label: "TypeScript",
    interfaces: ["responses", "chat"],
    write: (target) => sdk(target, "typescript"),
  },
  { id: "curl", label: "curl", interfaces: ["chat", "responses", "messages"], write: curlCommand },
] as const satisfies readonly ToolGuide[];

export type ToolId = (typeof TOOL_GUIDES)[number]["id"];

/** The interface that the tool uses for this model; undefined if the model has none of them. */
export function findGuideInterface(
  { interfaces }: Pick<ToolGuide, "interfaces">,
  model: Pick<GuideModel, "interfaces">,
): Interface | undefined {
  return interfaces.find((name) => model.interfaces.includes(name));
}

function claudeCode({ origin, model }: GuideTarget): GuideBlock[] {
  return shell(
    `export ANTHROPIC_BASE_URL=${quoted(origin, "shell")}`,
    `export ANTHROPIC_AUTH_TOKEN="$${KEY_VARIABLE}"`,
    `export ANTHROPIC_MODEL=${quoted(model.id, "shell")}`,
    `claude -p "${PROMPT}"`,
  );
}

function codexFile({ origin, model }: GuideTarget): GuideBlock[] {
  const example = buildExample(origin, [model], ["responses"]);
  return [
    { place: "~/.codex/config.toml", language: "toml", code: (example && codex(example)) ?? "" },
    ...shell(`codex exec --skip-git-repo-check "${PROMPT}"`),
  ];
}

/**
 * Without the setting gemini-cli chooses a way to sign in that its own check rejects. A command that cannot ask whether
 * its folder is trusted fails without the flag.
 */
function geminiCli({ origin, model }: GuideTarget): GuideBlock[] {
  const settings = { security: { auth: { selectedType: "gemini-api-key" } } };
  return [
    { place: "~/.gemini/settings.json", language: "json", code: json(settings) },
    ...shell(
      `export GOOGLE_GEMINI_BASE_URL=${quoted(origin, "shell")}`,
      `export GEMINI_API_KEY="$${KEY_VARIABLE}"`,
      `gemini --skip-trust -m ${quoted(model.id, "shell")} -p "${PROMPT}"`,
    ),
  ];
}

function opencode({ origin, model }: GuideTarget): GuideBlock[] {
  const { context_tokens: context, max_output_tokens: output } = model;
  const limit = { context: context ?? CONTEXT_TOKENS, output: output ?? OUTPUT_TOKENS };
  const config = {
    $schema: "https://opencode.ai/config.json",
    provider: {
      gateway: {
        npm: "@ai-sdk/openai-compatible",
        name: "Model Gateway",
        options: { baseURL: `${origin}/v1`, apiKey: `{env:${KEY_VARIABLE}}` },
        models: { [model.id]: { name: model.id, limit } },
      },
    },
    model: `gateway/${model.id}`,
  };
  return [
    { place: "~/.config/opencode/opencode.json", language: "json", code: json(config) },
    ...shell(`opencode run "${PROMPT}"`),
  ];
}

/** Cursor has only fields, which do not read the environment. */
function cursor({ origin, model }: GuideTarget): GuideBlock[] {
  return [
    { place: "Override OpenAI Base URL", language: "text", code: `${origin}/v1` },
    { place: "Add model", language: "text", code: model.id },
  ];
}

const VS_CODE_TYPES = { chat: "chat-completions", responses: "responses", messages: "messages" } as const;

/** VS Code has written the entry around the list, with a reference to the key, which it keeps itself. */
function vsCode({ origin, model }: GuideTarget): GuideBlock[] {
  const names = ["chat", "responses", "messages"] as const;
  const used = names.find((name) => model.interfaces.includes(name)) ?? "chat";
  const apiType = VS_CODE_TYPES[used];
  const models = [
    {
      id: model.id,
      name: model.id,
      url: `${origin}/v1/${apiType.replace("-", "/")}`,
      apiType,
      toolCalling: true,
      vision: true,
      maxInputTokens: model.context_tokens ?? CONTEXT_TOKENS,
      maxOutputTokens: model.max_output_tokens ?? OUTPUT_TOKENS,
    },
  ];
  return [{ place: "chatLanguageModels.json", language: "json", code: `"models": ${json(models)}` }];
}

function openWebUi({ origin }: GuideTarget): GuideBlock[] {
  return shell(
    "docker run -d --name open-webui -p 3000:8080 \\",
    `  -e OPENAI_API_BASE_URL=${quoted(`${origin}/v1`, "shell")} \\`,
    `  -e OPENAI_API_KEY="$${KEY_VARIABLE}" \\`,
    "  -v open-webui:/app/backend/data ghcr.io/open-webui/open-webui:main",
  );
}

function libreChat({ origin, model }: GuideTarget): GuideBlock[] {
  const lines = [
    "version: 1.3.17",
    "endpoints:",
    "  custom:",
    '    - name: "Model Gateway"',
    `      apiKey: "\${${KEY_VARIABLE}}"`,
    `      baseURL: ${JSON.stringify(`${origin}/v1`)}`,
    "      models:",
    `        default: [${JSON.stringify(model.id)}]`,
    "        fetch: true",
    "      titleConvo: true",
    '      titleModel: "current_model"',
  ];
  return [{ place: "librechat.yaml", language: "yaml", code: lines.join("\n") }];
}

function sdk({ origin, model }: GuideTarget, language: "python" | "typescript"): GuideBlock[] {
  const example = buildExample(origin, [model], ["responses", "chat"]);
  const write = language === "python" ? python : typescript;
  const install = language === "python" ? "pip install openai" : "npm install openai";
  const place = language === "python" ? "hello.py" : "hello.mjs";
  return [...shell(install), { place, language, code: (example && write(example)) ?? "" }];
}

function curlCommand({ origin, model }: GuideTarget): GuideBlock[] {
  const example = buildExample(origin, [model], ["chat", "responses", "messages"]);
  return shell(example === null ? "" : curl(example));
}

function shell(...lines: readonly string[]): GuideBlock[] {
  return [{ place: null, language: "bash", code: lines.join("\n") }];
}
