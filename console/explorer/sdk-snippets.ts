/** Requests with the official SDKs, whose base address ends with `/v1`, and the configuration of Codex. */

import { indented, isForm, json, KEY_VARIABLE, quoted, type SnippetRequest, streams } from "./snippet.ts";

/** What the official SDKs call it; others are asked for with plain HTTP. */
const SDK_CALLS: Readonly<Record<string, { python: string; typescript: string }>> = {
  "POST /v1/responses": { python: "responses.create", typescript: "responses.create" },
  "POST /v1/chat/completions": { python: "chat.completions.create", typescript: "chat.completions.create" },
  "POST /v1/embeddings": { python: "embeddings.create", typescript: "embeddings.create" },
  "POST /v1/images/generations": { python: "images.generate", typescript: "images.generate" },
  "GET /v1/models": { python: "models.list", typescript: "models.list" },
};

export function python(request: SnippetRequest): string | null {
  const call = SDK_CALLS[`${request.method} ${request.path}`]?.python;
  const edits = request.path === "/v1/images/edits" && isForm(request);
  if (call === undefined && !edits) return null;
  const named = Object.entries(request.body ?? {}).map(
    ([name, value]) => `    ${name}=${pythonValue(value, 1)},`,
  );
  const files = fileArguments(
    request,
    (name) => `open(${quoted(name, "python")}, "rb")`,
    (name, value) => `    ${name}=${value},`,
  );
  const args = [...named, ...files];
  const invoked = `client.${call ?? "images.edit"}(${args.length === 0 ? "" : `\n${args.join("\n")}\n`})`;
  const use = streams(request)
    ? `for event in ${invoked}:\n    print(event)`
    : `answer = ${invoked}\nprint(answer.to_json())`;
  return `import os
from openai import OpenAI

client = OpenAI(
    base_url=${quoted(`${request.baseUrl}/v1`, "python")},
    api_key=os.environ["${KEY_VARIABLE}"],
)

${use}`;
}

export function typescript(request: SnippetRequest): string | null {
  const call = SDK_CALLS[`${request.method} ${request.path}`]?.typescript;
  const edits = request.path === "/v1/images/edits" && isForm(request);
  if (call === undefined && !edits) return null;
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
  const invoked = `client.${call ?? "images.edit"}(${argument})`;
  const use = streams(request)
    ? `for await (const event of await ${invoked}) {\n  console.log(event);\n}`
    : `console.log(await ${invoked});`;
  const imports = files.length === 0 ? "" : 'import { createReadStream } from "node:fs";\n';
  return `${imports}import OpenAI from "openai";

const client = new OpenAI({
  baseURL: ${quoted(`${request.baseUrl}/v1`, "javascript")},
  apiKey: process.env.${KEY_VARIABLE},
});

${use}`;
}

/** `image[]` is how forms write what SDKs call `image`, a list. */
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

/** For the one thing that Codex does: talk to a model that speaks Responses. */
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
