/** Writes requests with the official SDKs, whose base URL ends with `/v1`, and the configuration of Codex. */

import { indented, isForm, json, KEY_VARIABLE, quoted, type SnippetRequest, streams } from "./snippet.ts";

interface SdkCall {
  method: string;
  /** The generated content of a response, as an expression; null if the response is the content. */
  content: { python: string; typescript: string } | null;
}

/** The calls of the official SDKs, which have the same names in both languages. */
const SDK_CALLS: Readonly<Record<string, SdkCall>> = {
  "POST /v1/responses": {
    method: "responses.create",
    content: { python: "answer.output_text", typescript: "answer.output_text" },
  },
  "POST /v1/chat/completions": {
    method: "chat.completions.create",
    content: {
      python: "answer.choices[0].message.content",
      typescript: "answer.choices[0]?.message.content",
    },
  },
  "POST /v1/embeddings": {
    method: "embeddings.create",
    content: { python: "answer.data[0].embedding[:4]", typescript: "answer.data[0]?.embedding.slice(0, 4)" },
  },
  "POST /v1/images/generations": {
    method: "images.generate",
    content: { python: "len(answer.data[0].b64_json)", typescript: "answer.data?.[0]?.b64_json?.length" },
  },
  "GET /v1/models": { method: "models.list", content: null },
};

const EDIT_IMAGES: SdkCall = { method: "images.edit", content: null };

/** Returns null for operations that the SDKs do not have. */
function findCall(request: SnippetRequest): SdkCall | null {
  if (request.path === "/v1/images/edits" && isForm(request)) return EDIT_IMAGES;
  return SDK_CALLS[`${request.method} ${request.path}`] ?? null;
}

export function python(request: SnippetRequest): string | null {
  const call = findCall(request);
  if (call === null) return null;
  const named = Object.entries(request.body ?? {}).map(
    ([name, value]) => `    ${name}=${pythonValue(value, 1)},`,
  );
  const files = fileArguments(
    request,
    (name) => `open(${quoted(name, "python")}, "rb")`,
    (name, value) => `    ${name}=${value},`,
  );
  const args = [...named, ...files];
  const invoked = `client.${call.method}(${args.length === 0 ? "" : `\n${args.join("\n")}\n`})`;
  const output = (request.printsContent && call.content?.python) || "answer.to_json()";
  const use = streams(request)
    ? `for event in ${invoked}:\n    print(event)`
    : `answer = ${invoked}\nprint(${output})`;
  return `import os
from openai import OpenAI

client = OpenAI(
    base_url=${quoted(`${request.baseUrl}/v1`, "python")},
    api_key=os.environ["${KEY_VARIABLE}"],
)

${use}`;
}

export function typescript(request: SnippetRequest): string | null {
  const call = findCall(request);
  if (call === null) return null;
  const files = fileArguments(
    request,
    (name) => `createReadStream(${quoted(name, "javascript")})`,
    (name, value) => `  ${name}: ${value},`,
  );
  const fields = Object.entries(request.body ?? {}).map(
    ([name, value]) => `  ${name}: ${indented(json(value), "  ")},`,
  );
  const body = [...fields, ...files];
  const argument = body.length === 0 ? "" : `{\n${body.join("\n")}\n}`;
  const invoked = `client.${call.method}(${argument})`;
  const output = request.printsContent ? call.content?.typescript : undefined;
  const use = streams(request)
    ? `for await (const event of await ${invoked}) {\n  console.log(event);\n}`
    : output === undefined
      ? `console.log(await ${invoked});`
      : `const answer = await ${invoked};\nconsole.log(${output});`;
  const imports = files.length === 0 ? "" : 'import { createReadStream } from "node:fs";\n';
  return `${imports}import OpenAI from "openai";

const client = new OpenAI({
  baseURL: ${quoted(`${request.baseUrl}/v1`, "javascript")},
  apiKey: process.env.${KEY_VARIABLE},
});

${use}`;
}

/** A form repeats the field `image[]`; the SDKs take a list named `image`. */
function fileArguments(
  { files }: SnippetRequest,
  open: (name: string) => string,
  line: (name: string, value: string) => string,
): string[] {
  const byField = new Map<string, string[]>();
  for (const { field, name } of files) {
    const plain = field.replace("[]", "");
    byField.set(plain, [...(byField.get(plain) ?? []), open(name)]);
  }
  return [...byField].map(([field, opened]) =>
    line(field, opened.length === 1 ? (opened[0] ?? "") : `[${opened.join(", ")}]`),
  );
}

function pythonValue(value: unknown, depth: number): string {
  const pad = "    ".repeat(depth);
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return quoted(value, "python");
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((one) => `${pad}    ${pythonValue(one, depth + 1)},`).join("\n")}\n${pad}]`;
  }
  if (typeof value === "object") {
    const members = Object.entries(value);
    if (members.length === 0) return "{}";
    const lines = members.map(
      ([name, one]) => `${pad}    ${quoted(name, "python")}: ${pythonValue(one, depth + 1)},`,
    );
    return `{\n${lines.join("\n")}\n${pad}}`;
  }
  return String(value);
}

/**
 * Codex uses only Responses. The provider's name must not be "OpenAI", which would enable features that only OpenAI
 * has. Where a group does not allow WebSockets, Codex falls back to HTTP.
 */
export function codex({ baseUrl, path, body }: SnippetRequest): string | null {
  if (path !== "/v1/responses" || typeof body?.model !== "string") return null;
  return `# ~/.codex/config.toml
model = ${quoted(body.model, "toml")}
model_provider = "gateway"

[model_providers.gateway]
name = "Model Gateway"
base_url = ${quoted(`${baseUrl}/v1`, "toml")}
env_key = "${KEY_VARIABLE}"
wire_api = "responses"
supports_websockets = true`;
}
