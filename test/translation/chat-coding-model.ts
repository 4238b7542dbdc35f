/**
 * An upstream with Chat Completions only that follows the prompt: "run: …" calls the shell, "patch: …" changes files,
 * other prompts are echoed.
 */

import { z } from "zod";

export interface ChatCodingModel {
  /** As an account's `base_url`. */
  url: string;
  /** The bodies of the requests so far. */
  requests: readonly ChatBody[];
  stop(): Promise<void>;
}

const message = z.looseObject({
  role: z.string(),
  content: z
    .union([z.string(), z.null(), z.array(z.looseObject({ text: z.string().optional() }))])
    .optional(),
  tool_call_id: z.string().optional(),
});
const body = z.looseObject({
  model: z.string(),
  stream: z.literal(true),
  messages: z.array(message),
  tools: z
    .array(z.looseObject({ type: z.literal("function"), function: z.looseObject({ name: z.string() }) }))
    .optional(),
});
export type ChatBody = z.infer<typeof body>;

export function startChatCodingModel(): ChatCodingModel {
  const requests: ChatBody[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      if (!request.url.endsWith("/chat/completions")) return new Response("not found", { status: 404 });
      const read = body.parse(await request.json());
      requests.push(read);
      return new Response(respondTo(read, requests.length), {
        headers: { "content-type": "text/event-stream" },
      });
    },
  });
  return { url: `http://127.0.0.1:${server.port}/v1`, requests, stop: () => server.stop(true) };
}

function respondTo({ model, messages }: ChatBody, count: number): string {
  const { deltas, finish } = chooseDeltas(messages.at(-1), count);
  const chunk = { id: `chatcmpl-${count}`, object: "chat.completion.chunk", created: 1, model };
  const chunks: object[] = deltas.map((delta) => ({
    ...chunk,
    choices: [{ index: 0, delta, finish_reason: null }],
  }));
  chunks.push({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason: finish }] });
  chunks.push({
    ...chunk,
    choices: [],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  });
  return `${chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("")}data: [DONE]\n\n`;
}

function chooseDeltas(last: ChatBody["messages"][number] | undefined, count: number) {
  const text = readText(last?.content);
  if (last?.role === "user" && text.startsWith("run: "))
    return callDeltas("exec_command", { cmd: text.slice("run: ".length) }, count);
  if (last?.role === "user" && text.startsWith("patch: "))
    return callDeltas("apply_patch", { input: text.slice("patch: ".length) }, count);
  const reply = last?.role === "tool" ? `It gave: ${text}` : `You said: ${text}`;
  const half = Math.ceil(reply.length / 2);
  return {
    deltas: [
      { role: "assistant", content: "" },
      { content: reply.slice(0, half) },
      { content: reply.slice(half) },
    ],
    finish: "stop",
  };
}

/** Arguments arrive in two pieces, and the finish reason is wrong, as at some vendors. */
function callDeltas(name: string, args: object, count: number) {
  const json = JSON.stringify(args);
  const half = Math.ceil(json.length / 2);
  const call = {
    index: 0,
    id: `call_${count}`,
    type: "function",
    function: { name, arguments: json.slice(0, half) },
  };
  return {
    deltas: [
      { role: "assistant", reasoning_content: "I call a tool." },
      { tool_calls: [call] },
      { tool_calls: [{ index: 0, function: { arguments: json.slice(half) } }] },
    ],
    finish: "stop",
  };
}

function readText(content: ChatBody["messages"][number]["content"]): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => text ?? "").join("");
}
