/** The Messages interface of the simulator: Anthropic's API. */

import type { Call } from "../endpoint.ts";
import type { Usage } from "../model/model-output.ts";
import { readRequestedCalls } from "../model/requested-call.ts";
import { buildSample } from "../model/sample.ts";
import { cutAtStop } from "../model/stop-sequences.ts";
import { longEnough, outputAfterTool, reasoningAbout, respondTo, sized } from "../model/text.ts";
import { eventsReply, jsonReply, NO_USAGE, type Reply, reportUsage } from "../reply.ts";
import type { Simulation } from "../simulation.ts";
import { type CacheUse, useCache } from "./messages-cache.ts";
import { invalidMessages } from "./messages-errors.ts";
import { messageEvents, messageObject } from "./messages-events.ts";
import { type MessagesRequest, type MessagesTool, readMessagesRequest } from "./messages-request.ts";
import { redactedData, signThinking } from "./messages-signature.ts";
import type { MessageBlock, PlannedMessage } from "./planned-message.ts";

export function createMessage(call: Call, simulation: Simulation): Reply {
  const request = readMessagesRequest(call, false);
  if ("kind" in request) return request;
  const input = call.tokens.ofPrompt(call.fields);
  const { fields } = call;
  const cacheUse = useCache({ fields, model: call.behaviour.model, cache: simulation.prefixCache }, input);
  if (cacheUse === null)
    return invalidMessages("A maximum of 4 blocks with cache_control may be provided. Found 5.");
  const planned = planMessage(call, request, cacheUse);
  const usage = countUsage(planned, input);
  const reported = reportUsage(usage, call.fault);
  const message: PlannedMessage = { ...planned, usage: reported };
  return request.stream
    ? eventsReply(messageEvents(message), usage)
    : jsonReply(messageObject(message, call.fault?.name === "empty" ? [] : message.blocks), usage);
}

export function countMessageTokens(call: Call): Reply {
  const request = readMessagesRequest(call, true);
  if ("kind" in request) return request;
  return jsonReply(JSON.stringify({ input_tokens: call.tokens.ofPrompt(call.fields) }), NO_USAGE);
}

function planMessage(
  call: Call,
  request: MessagesRequest,
  cacheUse: CacheUse,
): Omit<PlannedMessage, "usage"> {
  const { behaviour, fault, newId } = call;
  const { question, results } = readLastTurns(request);
  const base = { id: newId("msg_"), call, cacheUse, stopSequence: null };
  if (fault?.name === "refusal") return { ...base, blocks: [], stopReason: "refusal", searches: 0 };
  const thinking = planThinking(call, request, question);
  const calls = planCalls(call, request, { question, results: results.length });
  const hosted = planSearch(call, request);
  if (calls.length > 0) {
    const texts: MessageBlock[] = behaviour.model.includes("text")
      ? [{ type: "text", text: "I will look that up." }]
      : [];
    const blocks = [...thinking, ...texts, ...calls];
    return { ...base, blocks, stopReason: "tool_use", searches: 0 };
  }
  const { text, stopReason, stopSequence } = planText(call, request, { question, results });
  const cited = hosted.length === 0 ? {} : { citedUrl: FOUND_URL };
  const response: MessageBlock[] = text === "" ? [] : [{ type: "text", text, ...cited }];
  const blocks = [...thinking, ...hosted, ...response];
  return { ...base, blocks, stopReason, stopSequence, searches: hosted.length / 2 };
}

/** The last question, and the tool results since then. */
function readLastTurns({ turns }: MessagesRequest): { question: string; results: readonly string[] } {
  let question = "";
  let results: string[] = [];
  for (const { role, blocks } of turns) {
    if (role === "assistant") continue;
    const texts = blocks.filter(({ type }) => type === "text").map(({ text }) => String(text));
    const outputs = blocks.filter(({ type }) => type === "tool_result").map(({ content }) => toText(content));
    if (outputs.length === 0 && texts.length > 0 && role === "user") {
      question = texts.at(-1) ?? "";
      results = [];
    }
    results.push(...outputs);
  }
  return { question, results };
}

function toText(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? content : [];
  return parts.map((part: { text?: unknown }) => (typeof part.text === "string" ? part.text : "")).join(" ");
}

function planThinking(
  { behaviour, seed }: Call,
  { thinking }: MessagesRequest,
  question: string,
): MessageBlock[] {
  if (thinking === null || !behaviour.reasons) return [];
  if (behaviour.model.includes("redacted")) return [{ type: "redacted_thinking", data: redactedData(seed) }];
  const isShown = thinking === "summarized";
  const text = isShown ? reasoningAbout(question) : "";
  return [{ type: "thinking", thinking: text, signature: signThinking(seed, isShown ? text : "omitted") }];
}

function planCalls(
  { behaviour, newId }: Call,
  { tools, forcedTool, mayCall, maxParallel }: MessagesRequest,
  { question, results }: { question: string; results: number },
): MessageBlock[] {
  const own = tools.filter(({ isServerTool }) => !isServerTool);
  const wanted = behaviour.model.includes("parallel") ? Math.min(2, maxParallel) : 1;
  const isLooping = behaviour.callsTools && mayCall && results < behaviour.steps * wanted;
  if (forcedTool === null && !isLooping) return [];
  const requested = readRequestedCalls(question).filter(({ name }) => own.some((tool) => tool.name === name));
  if (forcedTool === null && requested.length > 0) {
    return requested.map(({ name, input }) => ({ type: "tool_use", id: newId("toolu_"), name, input }));
  }
  const chosen = forcedTool === null ? own.slice(0, wanted) : [forcedTool];
  return chosen.map((tool) => ({
    type: "tool_use",
    id: newId("toolu_"),
    name: tool.name,
    input: sampleInput(tool, question),
  }));
}

function sampleInput({ schema }: MessagesTool, question: string): string {
  const sample = buildSample(schema, "", question);
  return JSON.stringify(typeof sample === "object" && sample !== null ? sample : {});
}

const FOUND_URL = "https://example.com/simulator";

function planSearch({ behaviour, newId }: Call, { tools }: MessagesRequest): MessageBlock[] {
  const tool = tools.find(({ isServerTool, name }) => isServerTool && name === "web_search");
  if (tool === undefined) return [];
  const searches = behaviour.searches ?? (behaviour.model.includes("search") ? 1 : 0);
  return Array.from({ length: searches }, (): MessageBlock[] => {
    const id = newId("srvtoolu_");
    return [
      { type: "server_tool_use", id, name: tool.name, input: '{"query":"simulator"}' },
      { type: "web_search_tool_result", tool_use_id: id, url: FOUND_URL },
    ];
  }).flat();
}

interface PlannedText {
  text: string;
  stopReason: string;
  stopSequence: string | null;
}

function planText(
  { behaviour, fault, seed, tokens }: Call,
  { schema, stops, maxTokens }: MessagesRequest,
  { question, results }: { question: string; results: readonly string[] },
): PlannedText {
  const last = results.at(-1);
  let text =
    schema === undefined
      ? last === undefined
        ? respondTo(question, seed, 0)
        : outputAfterTool(last)
      : JSON.stringify(buildSample(schema, "", question));
  if (behaviour.bytes !== null) text = sized(text, behaviour.bytes);
  else if (behaviour.events !== null) text = longEnough(text, behaviour.events);
  const stopped = stops.length === 0 ? text : cutAtStop(text, stops);
  const stopSequence =
    stopped.length < text.length
      ? (stops.find((stop) => text.startsWith(stop, stopped.length)) ?? null)
      : null;
  const cut = tokens.cut(stopped, maxTokens);
  if (fault?.name === "filtered") return { text: cut, stopReason: "refusal", stopSequence: null };
  if (cut.length < stopped.length || fault?.name === "incomplete")
    return { text: cut, stopReason: "max_tokens", stopSequence: null };
  return { text: cut, stopReason: stopSequence === null ? "end_turn" : "stop_sequence", stopSequence };
}

function countUsage({ call, blocks, cacheUse }: Omit<PlannedMessage, "usage">, input: number): Usage {
  const reasoning: string[] = [];
  const output: string[] = [];
  for (const block of blocks) {
    if (block.type === "thinking") reasoning.push(block.thinking);
    else if (block.type === "text") output.push(block.text);
    else if (block.type === "tool_use" || block.type === "server_tool_use")
      output.push(block.name, block.input);
  }
  const { hiddenTokens } = call.behaviour;
  const shown = {
    output: call.tokens.ofTexts([...reasoning, ...output]),
    reasoning: call.tokens.ofTexts(reasoning),
  };
  return {
    input,
    cached: cacheUse.read,
    output: shown.output + hiddenTokens,
    reasoning: shown.reasoning + hiddenTokens,
    ...(hiddenTokens === 0 ? {} : { hidden: hiddenTokens }),
  };
}
