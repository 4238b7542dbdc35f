/** A translated account serves its clients exactly as an account that has the interface itself. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readUsage } from "../../src/protocols/shared/usage.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MODELS = { fast: "sim-fast", thinker: "sim-reason", caller: "sim-tools", cut: "fault/incomplete" };
const MAPPED = Object.entries(MODELS)
  .map(([id, upstream]) => `${id}: ${upstream}`)
  .join(", ");
const account = (name: string) =>
  `  - { name: ${name}, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, interfaces: [${name}], models: { ${MAPPED} } }`;
const group = (name: string) =>
  `  - { name: ${name}, interfaces: [chat, responses], models: [${Object.keys(MODELS).join(", ")}], accounts: [${name}] }`;
const secret = (name: string) => `${name}-${TEST_KEY}`;

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    tokens: "words",
    file: `
models:
${Object.keys(MODELS)
  .map((id) => `  - { id: ${id}, interfaces: [chat, responses] }`)
  .join("\n")}
accounts:
${account("chat")}
${account("responses")}
groups:
${group("chat")}
${group("responses")}
keys:
  - { name: chat, group: chat, secret: ${secret("chat")} }
  - { name: responses, group: responses, secret: ${secret("responses")} }
`,
  });
});

afterAll(() => gateway.stop());

type Json = Record<string, unknown>;

async function send(accountOf: "chat" | "responses", path: string, body: Json): Promise<string> {
  const headers = { authorization: `Bearer ${secret(accountOf)}` };
  const response = await gateway.call(path, body, { headers });
  expect(response.status).toBe(200);
  return await response.text();
}

/** Ids and times differ between any two responses. */
const VOLATILE = new Set(["id", "item_id", "call_id", "created", "created_at", "completed_at"]);

function normalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalize);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([name]) => !VOLATILE.has(name));
  return Object.fromEntries(members.map(([name, member]) => [name, normalize(member)]));
}

function normalForm(usage: unknown): unknown {
  return readUsage(usage);
}

function parseEvents(text: string): Json[] {
  return text
    .split("\n\n")
    .flatMap((block) => block.split("\n").filter((line) => line.startsWith("data: {")))
    .map((line) => JSON.parse(line.slice("data: ".length)));
}

const tools = [
  {
    type: "function",
    name: "look_up",
    parameters: { type: "object", properties: { a: { type: "string" } } },
  },
];
const chatTools = tools.map(({ type, ...definition }) => ({ type, function: definition }));
const question = "Why is the sky blue?";

describe.each(Object.keys(MODELS))("the model %s", (model) => {
  const responsesBody = { model, input: question, store: false, ...(model === "caller" ? { tools } : {}) };
  const chatBody = {
    model,
    messages: [{ role: "user", content: question }],
    ...(model === "caller" ? { tools: chatTools } : {}),
  };

  test("gives a Responses client the same output and usage", async () => {
    const [native, translated] = await Promise.all(
      (["responses", "chat"] as const).map(
        async (kind): Promise<Json> => JSON.parse(await send(kind, "/v1/responses", responsesBody)),
      ),
    );
    const shape = ({ status, incomplete_details, output, usage, model: name }: Json) =>
      normalize({
        status,
        incomplete_details,
        output: describeOutput(output),
        usage: normalForm(usage),
        name,
      });
    expect(shape(translated ?? {})).toEqual(shape(native ?? {}));
  });

  test("gives a Responses client the same kinds of events in the same order", async () => {
    const [native, translated] = await Promise.all(
      (["responses", "chat"] as const).map(async (kind) =>
        parseEvents(await send(kind, "/v1/responses", { ...responsesBody, stream: true })),
      ),
    );
    const kinds = (events: readonly Json[] = []) =>
      events.map(({ type }) => String(type)).filter((type, at, all) => type !== all[at - 1]);
    expect(kinds(translated)).toEqual(kinds(native));
  });

  test("gives a Chat client the same message and usage", async () => {
    const [native, translated] = await Promise.all(
      (["chat", "responses"] as const).map(
        async (kind): Promise<Json> => JSON.parse(await send(kind, "/v1/chat/completions", chatBody)),
      ),
    );
    const shape = ({ choices, usage }: Json) =>
      normalize({ choices: describeChoices(choices), usage: normalForm(usage) });
    expect(shape(translated ?? {})).toEqual(shape(native ?? {}));
  });

  test("gives a Chat client the same text in a stream", async () => {
    const [native, translated] = await Promise.all(
      (["chat", "responses"] as const).map(async (kind) =>
        parseEvents(await send(kind, "/v1/chat/completions", { ...chatBody, stream: true })),
      ),
    );
    const joined = (events: readonly Json[] = []) => joinDeltas(events);
    expect(joined(translated)).toEqual(joined(native));
  });
});

function describeOutput(output: unknown): unknown[] {
  return (output as Json[]).map(({ type, role, content, summary, name, arguments: input, status }) => ({
    type,
    role,
    texts: [content, summary]
      .flatMap((parts) => (Array.isArray(parts) ? parts : []))
      .map(({ text }: Json) => text),
    name,
    input,
    status: type === "reasoning" ? undefined : status,
  }));
}

function describeChoices(choices: unknown): unknown[] {
  return (choices as { message: Json; finish_reason: string }[]).map(({ message, finish_reason }) => ({
    content: message.content ?? null,
    reasoning: message.reasoning_content ?? null,
    calls: ((message.tool_calls ?? []) as Json[]).map((call) => call.function),
    finish_reason,
  }));
}

function joinDeltas(events: readonly Json[]): Json {
  let content = "";
  let reasoning = "";
  let calls = "";
  let finish: unknown = null;
  for (const { choices } of events) {
    const [choice] = choices as { delta: Json; finish_reason: unknown }[];
    content += choice?.delta.content ?? "";
    reasoning += choice?.delta.reasoning_content ?? "";
    for (const call of (choice?.delta.tool_calls ?? []) as { function: Json }[])
      calls += `${call.function.name ?? ""}${call.function.arguments ?? ""}`;
    finish = choice?.finish_reason ?? finish;
  }
  return { content, reasoning, calls, finish };
}
