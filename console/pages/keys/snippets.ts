/**
 * Programs that call a model, ready to run: the key is read from an environment variable, so that it stands in none of
 * them. Names are written as each language quotes them, for an operator may choose any.
 */

export type Interface = "chat" | "responses" | "embeddings" | "images";

/** What is called: a model, and through what. */
export interface Target {
  /** Where the gateway is, without a slash at its end. */
  origin: string;
  model: string;
  interface: Interface;
}

const VARIABLE = "MODEL_GATEWAY_KEY";

/**
 * Typed blindly, so that the key is neither on the screen nor in the history of the shell. In one line, and without a
 * remark: `read` would take a second line for the key, and not every shell knows remarks at its prompt.
 */
export const environment = `read -rs ${VARIABLE} && export ${VARIABLE}`;

/** The first of these that a model can be called through makes the shortest examples. */
const PREFERRED: readonly Interface[] = ["chat", "responses", "embeddings", "images"];

export function targetOf(
  origin: string,
  models: readonly { id: string; interfaces: readonly Interface[] }[],
): Target | null {
  for (const wanted of PREFERRED) {
    const found = models.find(({ interfaces }) => interfaces.includes(wanted));
    if (found) return { origin, model: found.id, interface: wanted };
  }
  return null;
}

const PROMPT = "Say hello in one sentence.";
const PICTURE = "A lighthouse at dawn";

const PATHS: Readonly<Record<Interface, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  embeddings: "/v1/embeddings",
  images: "/v1/images/generations",
};

function bodyOf({ model, interface: iface }: Target): object {
  switch (iface) {
    case "chat":
      return { model, messages: [{ role: "user", content: PROMPT }] };
    case "responses":
    case "embeddings":
      return { model, input: PROMPT };
    case "images":
      return { model, prompt: PICTURE };
  }
}

export function curl(target: Target): string {
  return [
    `curl ${target.origin}${PATHS[target.interface]} \\`,
    `  -H "Authorization: Bearer $${VARIABLE}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${shellQuoted(JSON.stringify(bodyOf(target)))}`,
  ].join("\n");
}

export function python({ origin, model, interface: iface }: Target): string {
  const name = JSON.stringify(model);
  const calls: Readonly<Record<Interface, string>> = {
    chat: `answer = client.chat.completions.create(
    model=${name},
    messages=[{"role": "user", "content": ${JSON.stringify(PROMPT)}}],
)
print(answer.choices[0].message.content)`,
    responses: `answer = client.responses.create(model=${name}, input=${JSON.stringify(PROMPT)})
print(answer.output_text)`,
    embeddings: `answer = client.embeddings.create(model=${name}, input=${JSON.stringify(PROMPT)})
print(answer.data[0].embedding[:4])`,
    images: `answer = client.images.generate(model=${name}, prompt=${JSON.stringify(PICTURE)})
print(len(answer.data[0].b64_json))`,
  };
  return `import os
from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=os.environ["${VARIABLE}"])

${calls[iface]}`;
}

export function typescript({ origin, model, interface: iface }: Target): string {
  const name = JSON.stringify(model);
  const calls: Readonly<Record<Interface, string>> = {
    chat: `const answer = await client.chat.completions.create({
  model: ${name},
  messages: [{ role: "user", content: ${JSON.stringify(PROMPT)} }],
});
console.log(answer.choices[0]?.message.content);`,
    responses: `const answer = await client.responses.create({ model: ${name}, input: ${JSON.stringify(PROMPT)} });
console.log(answer.output_text);`,
    embeddings: `const answer = await client.embeddings.create({ model: ${name}, input: ${JSON.stringify(PROMPT)} });
console.log(answer.data[0]?.embedding.slice(0, 4));`,
    images: `const answer = await client.images.generate({ model: ${name}, prompt: ${JSON.stringify(PICTURE)} });
console.log(answer.data?.[0]?.b64_json?.length);`,
  };
  return `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: "${origin}/v1",
  apiKey: process.env.${VARIABLE},
});

${calls[iface]}`;
}

/**
 * Codex speaks Responses alone. The provider's name is not "OpenAI": that would switch on what only OpenAI has. Where a
 * group allows no WebSocket, Codex is told so and goes on without.
 */
export function codex({ origin, model }: Pick<Target, "origin" | "model">): string {
  return `model = ${JSON.stringify(model)}
model_provider = "gateway"

[model_providers.gateway]
name = "Model Gateway"
base_url = "${origin}/v1"
env_key = "${VARIABLE}"
wire_api = "responses"
supports_websockets = true`;
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
