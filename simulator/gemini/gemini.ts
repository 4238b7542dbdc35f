/** The Gemini API of the simulator: generateContent, streamGenerateContent, countTokens. */

import type { Call } from "../endpoint.ts";
import { isRecord, parseJson } from "../json-fields.ts";
import type { Behaviour } from "../model/model-name.ts";
import { CALLS_MAX, type Choice, planOutput, type ToolCall, type Usage } from "../model/model-output.ts";
import { splitText } from "../model/text.ts";
import {
  eventsReply,
  type Frame,
  frame,
  jsonReply,
  outputFrame,
  type Reply,
  reportUsage,
  usageJson,
} from "../reply.ts";
import { checkGeminiBody } from "./gemini-checks.ts";
import { toChatFields } from "./gemini-prompt.ts";
import { googleBody, googleRejection, invalidArgument, toGoogleRejection } from "./google-rejection.ts";
import { sign, signedCall } from "./signatures.ts";

type Json = Readonly<Record<string, unknown>>;

/** Text, thoughts and each call. */
const LANES_PER_CANDIDATE = 2 + CALLS_MAX;

export function generateContent(call: Call, streams: boolean): Reply {
  const body = readBody(call);
  if (body === null) return invalidArgument("Invalid JSON payload received. Expected an object.");
  const refused = checkGeminiBody(body, { isStrict: isStrict(call.behaviour), seed: call.seed });
  if (refused !== null) return refused;
  const thinking = readThinking(body);
  const behaviour = thinking.isOff ? { ...call.behaviour, reasons: false } : call.behaviour;
  const received = planOutput({ ...call, behaviour, fields: toChatFields(body) }, "messages", 0);
  if ("kind" in received) return toGoogleRejection(received);
  const usage = thinking.isShown ? received.usage : withHiddenThoughts(received.usage);
  const response = new GeminiResponse(call, thinking.isShown, reportUsage(received.usage, call.fault));
  if (call.fault?.name === "failed" && !streams) return googleRejection(500, INTERNAL);
  return streams
    ? eventsReply(response.frames(received.choices), usage)
    : jsonReply(response.whole(received.choices), usage);
}

export function countTokens(call: Call): Reply {
  const body = readBody(call);
  if (body === null) return invalidArgument("Invalid JSON payload received. Expected an object.");
  const inner = isRecord(body.generateContentRequest) ? body.generateContentRequest : body;
  const refused = checkGeminiBody(inner, { isStrict: false, seed: call.seed });
  if (refused !== null) return refused;
  const totalTokens = call.tokens.ofPrompt(toChatFields(inner));
  const details = [{ modality: "TEXT", tokenCount: totalTokens }];
  return jsonReply(JSON.stringify({ totalTokens, promptTokensDetails: details }), {
    input: 0,
    cached: 0,
    output: 0,
    reasoning: 0,
  });
}

const INTERNAL =
  "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting";

function readBody({ fields }: Call): Json | null {
  const body = parseJson(
    `{${[...fields].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`,
  );
  return isRecord(body) ? body : null;
}

/** Models that require signatures, as Gemini 3 does. */
function isStrict({ model }: Behaviour): boolean {
  return model.includes("reason") || model.includes("gemini-3");
}

function readThinking(body: Json): { isOff: boolean; isShown: boolean } {
  const config = isRecord(body.generationConfig) ? body.generationConfig.thinkingConfig : null;
  if (!isRecord(config)) return { isOff: false, isShown: false };
  return { isOff: config.thinkingBudget === 0, isShown: config.includeThoughts === true };
}

function withHiddenThoughts(usage: Usage): Usage {
  return { ...usage, hidden: usage.reasoning };
}

/** Writes the response as parts, whole or in pieces. */
class GeminiResponse {
  readonly #call: Call;
  readonly #showsThoughts: boolean;
  readonly #usage: Usage | null;
  readonly #id: string;

  constructor(call: Call, showsThoughts: boolean, usage: Usage | null) {
    this.#call = call;
    this.#showsThoughts = showsThoughts;
    this.#usage = usage;
    this.#id = call.newId("sim-gemini-");
  }

  whole(choices: readonly Choice[]): string {
    if (this.#isBlocked()) return this.#blocked();
    const candidates = choices.map((choice, index) =>
      this.#candidate(index, this.#isEmpty() ? [] : this.#allParts(choice), this.#finishReason(choice)),
    );
    return this.#response(candidates);
  }

  *frames(choices: readonly Choice[]): Generator<Frame> {
    const { behaviour, fault } = this.#call;
    if (this.#isBlocked()) {
      yield frame(null, this.#blocked());
      return;
    }
    if (fault?.name === "capacity-in-stream") {
      yield frame(null, googleBody(503, "The model is overloaded. Please try again later."));
      return;
    }
    for (const [index, choice] of choices.entries()) {
      const lane = index * LANES_PER_CANDIDATE;
      if (!this.#isEmpty()) {
        if (this.#showsThoughts)
          for (const piece of splitText(choice.reasoning, null))
            yield this.#output(index, { text: piece, thought: true }, piece, lane + 1);
        for (const piece of splitText(choice.text, behaviour.events))
          yield this.#output(index, { text: piece }, piece, lane);
        for (const [at, tool] of choice.calls.entries()) {
          const part = this.#callPart(tool, { isSigned: at === 0 && choice.reasoning !== "" });
          yield this.#output(index, part, tool.name + tool.arguments, lane + 2 + at);
        }
      }
      if (fault?.name === "failed") yield frame(null, googleBody(500, INTERNAL));
      else if (fault?.name !== "no-done")
        yield frame(
          null,
          this.#response([this.#candidate(index, this.#lastParts(choice), this.#finishReason(choice))]),
        );
    }
  }

  #output(index: number, part: Json, text: string, lane: number): Frame {
    const data = this.#response([this.#candidate(index, [part], null)], { isLast: false });
    return outputFrame(null, data, text, lane, lane % LANES_PER_CANDIDATE === 0);
  }

  #allParts(choice: Choice): Json[] {
    return [
      ...(this.#showsThoughts && choice.reasoning !== "" ? [{ text: choice.reasoning, thought: true }] : []),
      ...(choice.text === "" ? [] : [{ text: choice.text, ...this.#textSignature(choice) }]),
      ...choice.calls.map((tool, at) =>
        this.#callPart(tool, { isSigned: at === 0 && choice.reasoning !== "" }),
      ),
    ];
  }

  /** A stream signs its text in the last event, on a part without text. */
  #lastParts(choice: Choice): Json[] {
    if (this.#isEmpty()) return [];
    return [{ text: "", ...(choice.text === "" ? {} : this.#textSignature(choice)) }];
  }

  #textSignature({ text, reasoning, calls }: Choice): Json {
    return reasoning === "" || calls.length > 0 ? {} : { thoughtSignature: sign(this.#call.seed, text) };
  }

  /** Only the first of parallel calls is signed. */
  #callPart({ name, arguments: input }: ToolCall, { isSigned }: { readonly isSigned: boolean }): Json {
    const args: unknown = parseJson(input);
    const part = { functionCall: { name, args } };
    return isSigned ? { ...part, thoughtSignature: sign(this.#call.seed, signedCall(name, args)) } : part;
  }

  #candidate(index: number, parts: readonly Json[], finishReason: string | null): Json {
    return {
      content: parts.length === 0 ? { role: "model" } : { parts, role: "model" },
      ...(finishReason === null ? {} : { finishReason }),
      index,
    };
  }

  #finishReason(choice: Choice): string {
    const { fault } = this.#call;
    if (fault?.name === "filtered") return "SAFETY";
    return choice.cut || fault?.name === "incomplete" ? "MAX_TOKENS" : "STOP";
  }

  #isBlocked(): boolean {
    return this.#call.fault?.name === "blocked";
  }

  #isEmpty(): boolean {
    return this.#call.fault?.name === "empty";
  }

  #blocked(): string {
    const input = this.#usage?.input ?? 0;
    return JSON.stringify({
      promptFeedback: { blockReason: "PROHIBITED_CONTENT" },
      usageMetadata: { promptTokenCount: input, totalTokenCount: input },
      modelVersion: this.#call.behaviour.responseModel,
      responseId: this.#id,
    });
  }

  /** Events before the last one count only the prompt. */
  #response(candidates: readonly Json[], { isLast = true } = {}): string {
    const counts = this.#usage === null || isLast ? this.#usage : { ...this.#usage, output: 0, reasoning: 0 };
    const usage = counts === null ? "" : `,"usageMetadata":${usageMetadata(counts)}`;
    const { responseModel } = this.#call.behaviour;
    return `{"candidates":${JSON.stringify(candidates)}${usage},"modelVersion":${JSON.stringify(responseModel)},"responseId":"${this.#id}"}`;
  }
}

/** Google omits counts of zero. */
function usageMetadata({ input, cached, output, reasoning }: Usage): string {
  const thoughts = reasoning === 0 ? "" : `,"thoughtsTokenCount":${reasoning}`;
  const candidates = output - reasoning === 0 ? "" : `,"candidatesTokenCount":${output - reasoning}`;
  const cachedText = cached === 0 ? "" : `,"cachedContentTokenCount":${cached}`;
  return usageJson(
    `{"promptTokenCount":${input}${candidates},"totalTokenCount":${input + output}${cachedText},"promptTokensDetails":[{"modality":"TEXT","tokenCount":${input}}]${thoughts}}`,
  );
}
