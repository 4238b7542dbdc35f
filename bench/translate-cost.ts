/**
 * What translation costs: a request of 20 KB, and the events of a stream beside those of one that passes through.
 * Prints JSON. A separate process, so that nothing else is measured with it.
 */

import { COMPATIBLE_PROFILE } from "../src/accounts/profiles.ts";
import { wholeBytesPart } from "../src/base/parts.ts";
import { TranslatedReader } from "../src/gateway/translation/translated-reader.ts";
import { openEventFlow } from "../src/gateway/upstream/event-flow.ts";
import { parseJson } from "../src/json/parse.ts";
import { openChatReader } from "../src/protocols/chat/chat-stream.ts";
import { lookUpCodec } from "../src/protocols/codecs.ts";
import { DroppedFields } from "../src/protocols/hub/dropped-fields.ts";
import type { HubRequest } from "../src/protocols/hub/hub-request.ts";
import type { StreamReader } from "../src/protocols/shared/stream.ts";

const REQUEST_BYTES = 20_000;
const EVENTS = 60;
const ROUNDS = 9;
const STREAMS_PER_ROUND = 2_000;
const REQUESTS_PER_ROUND = 2_000;

export interface TranslateCost {
  requestMicros: number;
  passedEventMicros: number;
  translatedEventMicros: number;
  /** The part of a stream up to its first content. */
  firstContentMicros: number;
}

const SEALER = {
  seal: () => ({ kind: "sealed" as const, envelope: "gws1." }),
  open: () => null,
};
const TARGET = {
  upstreamModel: "upstream",
  profile: COMPATIBLE_PROFILE,
  sealer: SEALER,
  outputTokensMax: null,
  modelOutputTokensMax: null,
  webSearchesMax: null,
};
const responses = lookUpCodec("responses");
const chat = lookUpCodec("chat");

/** A coding client in its tenth turn: a dozen tools, instructions, and calls with their outputs. */
function buildRequest(): Uint8Array {
  const tools = Array.from({ length: 12 }, (_, i) => ({
    type: "function",
    name: `tool_${i}`,
    description: "Reads a file of the workspace and returns its lines.",
    parameters: { type: "object", properties: { path: { type: "string" }, lines: { type: "integer" } } },
  }));
  const turn = (at: number) => [
    { type: "function_call", call_id: `call_${at}`, name: "tool_1", arguments: '{"path":"src/main.ts"}' },
    { type: "function_call_output", call_id: `call_${at}`, output: "export const value = 1;\n".repeat(40) },
    {
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text: "The file declares a value." }],
    },
    { type: "message", role: "user", content: [{ type: "input_text", text: "Go on with the next file." }] },
  ];
  const body = {
    model: "m",
    stream: true,
    store: false,
    instructions: "Be brief. ".repeat(300),
    tools,
    input: [] as object[],
  };
  for (let at = 0; JSON.stringify(body).length < REQUEST_BYTES; at++) body.input.push(...turn(at));
  return Buffer.from(JSON.stringify(body));
}

function readHub(bytes: Uint8Array): HubRequest {
  const json = parseJson(bytes) as Record<string, unknown>;
  return responses.readRequest(json, { publicModel: "m", stream: true });
}

function translateRequest(bytes: Uint8Array): number {
  const { body } = chat.writeRequest(readHub(bytes), TARGET);
  return Buffer.from(JSON.stringify(body)).length;
}

const CHUNK = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "upstream" };
const EVENT_TEXTS = [
  { choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] },
  ...Array.from({ length: EVENTS }, (_, i) => ({
    choices: [{ index: 0, delta: { content: ` word${i}` }, finish_reason: null }],
  })),
  { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
].map((more) => Buffer.from(`data: ${JSON.stringify({ ...CHUNK, ...more })}\n\n`));
const DONE = Buffer.from("data: [DONE]\n\n");

function openTranslated(request: HubRequest): StreamReader {
  const dropped = new DroppedFields();
  const client = {
    publicModel: "m",
    request,
    responseId: "resp_1",
    previousResponseId: null,
    inputTokensEstimate: 0,
    nowMs: 1,
    newId: (prefix: string) => `${prefix}1`,
    wantsUsageChunk: false,
    dropped,
  };
  return new TranslatedReader({
    upstream: chat.openStreamReader({ toolNames: { resolve: () => null }, sealer: SEALER, dropped }),
    writer: responses.openStreamWriter(client),
    sink: null,
    reportsIncomplete: true,
    onComplete: null,
    hasLosses: () => false,
    onUsage: () => {},
  });
}

function openPassed(): StreamReader {
  return openChatReader({ publicModel: "m", hidesUsage: true, choices: 1, depthMax: 128 });
}

/** Each event is a separate chunk, as upstreams send them. */
function flow(reader: StreamReader, events: readonly Uint8Array[]): void {
  const steps = openEventFlow(reader, 1_000_000);
  for (const bytes of events) steps.take(wholeBytesPart(bytes));
}

/** The median of the rounds: what else the machine does comes and goes. */
function measure(count: number, run: () => void): number {
  for (let i = 0; i < count; i++) run();
  const rounds = Array.from({ length: ROUNDS }, () => {
    const start = process.cpuUsage();
    for (let i = 0; i < count; i++) run();
    const { user, system } = process.cpuUsage(start);
    return (user + system) / count;
  });
  return rounds.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0;
}

const bytes = buildRequest();
const hub = readHub(bytes);
const small: HubRequest = { ...hub, original: {}, tools: [], items: [] };
const stream = [...EVENT_TEXTS, DONE];
const first = EVENT_TEXTS.slice(0, 2);
const cost: TranslateCost = {
  requestMicros: measure(REQUESTS_PER_ROUND, () => void translateRequest(bytes)),
  passedEventMicros: measure(STREAMS_PER_ROUND, () => flow(openPassed(), stream)) / stream.length,
  translatedEventMicros:
    measure(STREAMS_PER_ROUND, () => flow(openTranslated(small), stream)) / stream.length,
  firstContentMicros: measure(STREAMS_PER_ROUND, () => flow(openTranslated(hub), first)),
};
console.log(JSON.stringify(cost));
