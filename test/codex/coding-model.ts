/** An upstream that follows the prompt: "run: …" calls the shell, "patch: …" changes files, others are echoed. */

import { z } from "zod";

export interface CodingModel {
  /** As an account's `base_url`. */
  url: string;
  /** The bodies of the requests so far. */
  asked: readonly AskedBody[];
  stop(): Promise<void>;
}

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const item = z.looseObject({
  type: z.string().optional(),
  role: z.string().optional(),
  content: z.union([z.string(), z.array(part)]).optional(),
  output: z.union([z.string(), z.array(part)]).optional(),
});
const body = z.looseObject({
  model: z.string(),
  input: z.array(item),
  tools: z.array(z.looseObject({ type: z.string(), name: z.string().optional() })).optional(),
});
export type AskedBody = z.infer<typeof body>;
type Item = z.infer<typeof item>;

export function startCodingModel(): CodingModel {
  const asked: AskedBody[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const question = body.parse(await request.json());
      asked.push(question);
      const events = respondTo(question, asked.length);
      return new Response(events, { headers: { "content-type": "text/event-stream" } });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    asked,
    stop: () => server.stop(true),
  };
}

function respondTo({ model, input }: AskedBody, count: number): string {
  const done = outputItem(input.at(-1), count);
  const response = (status: string, output: object[]) => ({
    response: {
      id: `resp_${count}`,
      object: "response",
      created_at: 0,
      model,
      status,
      output,
      usage:
        status === "completed"
          ? {
              input_tokens: 10,
              input_tokens_details: { cached_tokens: 0 },
              output_tokens: 5,
              output_tokens_details: { reasoning_tokens: 0 },
              total_tokens: 15,
            }
          : null,
    },
  });
  return [
    { type: "response.created", ...response("in_progress", []) },
    { type: "response.output_item.added", output_index: 0, item: { ...done, status: "in_progress" } },
    { type: "response.output_item.done", output_index: 0, item: done },
    { type: "response.completed", ...response("completed", [done]) },
  ]
    .map((event, i) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: i })}\n\n`)
    .join("");
}

function outputItem(last: Item | undefined, count: number): Record<string, unknown> {
  const call = { status: "completed", call_id: `call_${count}` };
  const text = joinText(last?.content);
  if (last?.role === "user" && text.startsWith("run: ")) {
    const args = JSON.stringify({ cmd: text.slice("run: ".length) });
    return { type: "function_call", id: `fc_${count}`, ...call, name: "exec_command", arguments: args };
  }
  if (last?.role === "user" && text.startsWith("patch: ")) {
    const input = text.slice("patch: ".length);
    return { type: "custom_tool_call", id: `ctc_${count}`, ...call, name: "apply_patch", input };
  }
  const reply = last?.output === undefined ? `You said: ${text}` : `It gave: ${joinText(last.output)}`;
  return {
    type: "message",
    id: `msg_${count}`,
    status: "completed",
    role: "assistant",
    content: [{ type: "output_text", text: reply, annotations: [], logprobs: [] }],
  };
}

function joinText(content: Item["content"]): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => text ?? "").join("");
}
