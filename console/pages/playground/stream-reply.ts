/** Sends one request of the playground to the gateway, as any client does, and reads the reply as it streams. */

import { createParser } from "eventsource-parser";
import { isObject, parsed } from "../../explorer/json-value.ts";
import { NEW_REPLY, type Reply, type ToolCall } from "./conversation.ts";
import type { PlaygroundDialect, ReplyDelta } from "./dialects.ts";

export interface ReplyRequest {
  readonly dialect: PlaygroundDialect;
  readonly body: Readonly<Record<string, unknown>>;
  /** The secret of a key. It is sent in the header, and nowhere else. */
  readonly secret: string;
  readonly signal: AbortSignal;
  /** The gateway does not accept the secret. */
  onSecretRejected?(): void;
}

/** Calls `onStep` with every step, and returns the last one. */
export async function streamReply(
  { dialect, body, secret, signal, onSecretRejected }: ReplyRequest,
  onStep: (reply: Reply) => void,
): Promise<Reply> {
  const startedMs = performance.now();
  const since = () => performance.now() - startedMs;
  let reply = NEW_REPLY;
  const step = (changes: Partial<Reply>) => {
    reply = { ...reply, ...changes };
    onStep(reply);
  };
  try {
    const response = await fetch(dialect.path, {
      method: "POST",
      // No cookie authenticates a model request.
      credentials: "omit",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    step({ requestId: response.headers.get("x-request-id") });
    if (response.status === 401) onSecretRejected?.();
    if (!response.ok || response.body === null)
      step({ problem: readMessage(parsed(await response.text())) ?? String(response.status) });
    else {
      const parser = createParser({
        onEvent: ({ data }) => {
          const event = parsed(data);
          const delta = isObject(event) ? dialect.readEvent(event) : null;
          if (delta !== null) step(addDelta(reply, delta, since()));
        },
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let read = await reader.read(); !read.done; read = await reader.read()) parser.feed(read.value);
    }
    step({ state: reply.problem === null ? "done" : "failed", totalMs: since() });
  } catch {
    const end: Partial<Reply> = signal.aborted ? { state: "stopped" } : { state: "failed", problem: "" };
    step({ ...end, totalMs: since() });
  }
  return reply;
}

/** The state after one more event. */
export function addDelta(reply: Reply, delta: ReplyDelta, ms: number): Partial<Reply> {
  const { text = "", reasoning = "", toolCalls = [], problem } = delta;
  const hasOutput = text !== "" || reasoning !== "" || toolCalls.length > 0;
  return {
    text: reply.text + text,
    reasoning: reply.reasoning + reasoning,
    toolCalls: toolCalls.reduce(addToolCall, reply.toolCalls),
    firstMs: reply.firstMs ?? (hasOutput ? ms : null),
    problem: reply.problem ?? problem ?? null,
  };
}

/** Indexes count the output of a response, which has other parts as well, so they are not positions. */
interface OpenToolCall extends ToolCall {
  readonly index?: number;
}

function addToolCall(
  calls: readonly OpenToolCall[],
  { index, id = "", name = "", arguments: part = "" }: NonNullable<ReplyDelta["toolCalls"]>[number],
): OpenToolCall[] {
  const at = calls.findIndex((call) => call.index === index);
  const before = calls[at];
  if (before === undefined) return [...calls, { index, id, name, arguments: part }];
  const joined = { ...before, name: before.name + name, arguments: before.arguments + part };
  return calls.with(at, joined);
}

/** The message of an error, in the shape of any dialect. */
function readMessage(value: unknown): string | null {
  const error = isObject(value) ? value.error : null;
  return isObject(error) && typeof error.message === "string" ? error.message : null;
}
