/** Writes the contents of a Gemini request. */

import { parseCallInput } from "../hub/call-input.ts";
import { wrapCustomInput } from "../hub/custom-input.ts";
import type { WriteTarget } from "../hub/dialect-codec.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { CallItem, HubPart, HubRequest, MediaSource, OpaqueState } from "../hub/hub-request.ts";
import { type AssistantTurn, type CompletedCall, groupTurns } from "../hub/turns.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { isBefore } from "./gemini-models.ts";
import { FOREIGN_CALL_SIGNATURE } from "./thought-signature.ts";

type Json = Record<string, unknown>;

interface Content {
  readonly role: "user" | "model";
  readonly parts: Json[];
}

interface ContentsOptions {
  readonly target: WriteTarget;
  readonly dropped: DroppedFields;
  upstreamName(name: string, namespace: string | null): string;
}

const NO_OUTPUT = "no result was recorded";
/** A conversation begins with the user. */
const BEGINNING = { text: "." };
/** Google reads these addresses itself. */
const READABLE_URL = /^gs:\/\/|^https:\/\/(?:www\.)?youtube\.com\/|^https:\/\/youtu\.be\//;

export function writeContents(request: HubRequest, options: ContentsOptions): Json[] {
  return new ContentsWriter(options).write(request);
}

class ContentsWriter {
  readonly #options: ContentsOptions;
  readonly #contents: Content[] = [];

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  write({ items }: HubRequest): Json[] {
    for (const turn of groupTurns(items)) {
      if (turn.kind === "assistant") this.#writeAssistant(turn);
      else if (turn.kind === "foreign") this.#options.dropped.add(turn.path);
      else if (turn.role === "user") this.#add("user", this.#writeParts(turn.parts));
      else this.#writeSystem(turn.parts);
    }
    if (this.#contents[0]?.role !== "user") this.#contents.unshift({ role: "user", parts: [BEGINNING] });
    return this.#contents.map(({ role, parts }) => ({ role, parts }));
  }

  /** Neighbours of the same role are one content. */
  #add(role: Content["role"], parts: readonly Json[]): void {
    if (parts.length === 0) return;
    const last = this.#contents.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else this.#contents.push({ role, parts: [...parts] });
  }

  /** Only the beginning of a conversation has a system instruction. */
  #writeSystem(parts: readonly HubPart[]): void {
    const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n\n");
    if (text !== "") this.#add("user", [{ text: `[System message]\n${text}` }]);
  }

  #writeAssistant(turn: AssistantTurn): void {
    const signature = this.#findSignature(turn);
    const parts = this.#writeParts(turn.parts);
    const calls = turn.calls.map(({ call }, at) => this.#writeCall(call, at === 0 ? signature : null));
    const last = parts.at(-1);
    if (calls.length === 0 && signature !== null && last !== undefined) last.thoughtSignature = signature;
    this.#add("model", [...parts, ...calls]);
    if (turn.calls.length > 0) this.#writeOutputs(turn.calls);
  }

  /** Only the first of parallel calls is signed. The state is in the call, or in the reasoning before it. */
  #findSignature({ reasoning, calls }: AssistantTurn): string | null {
    const states = [calls[0]?.call.opaque ?? null, ...reasoning.map(({ opaque }) => opaque).toReversed()];
    for (const state of states) {
      const value = state && this.#open(state);
      if (value) return value;
    }
    if (reasoning.some(({ opaque }) => opaque !== null)) this.#options.dropped.add("reasoning");
    return null;
  }

  #open(state: OpaqueState): string | null {
    const opened = this.#options.target.sealer.open(state);
    return opened?.field === "thought_signature" ? opened.value : null;
  }

  #writeCall(call: CallItem, signature: string | null): Json {
    const name = this.#options.upstreamName(call.name, call.namespace);
    const args = parseCallInput(call.tool === "custom" ? wrapCustomInput(call.input) : call.input);
    return {
      functionCall: { ...this.#writeCallId(call), name, args },
      ...this.#writeCallSignature(signature),
    };
  }

  #writeCallId({ callId }: CallItem): Json {
    return this.#options.target.profile.callIds === false ? {} : { id: callId };
  }

  /** Models from Gemini 3 on reject calls without a signature. A call that another model made has none. */
  #writeCallSignature(signature: string | null): Json {
    if (signature !== null) return { thoughtSignature: signature };
    return isBefore(this.#options.target.upstreamModel, 3)
      ? {}
      : { thoughtSignature: FOREIGN_CALL_SIGNATURE };
  }

  /** All outputs of a step are in one content, in the order of the calls. */
  #writeOutputs(calls: readonly CompletedCall[]): void {
    const outputs: Json[] = [];
    const media: Json[] = [];
    for (const { call, output } of calls) {
      const parts = output?.parts ?? [];
      const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n\n");
      const response =
        output === null ? { error: NO_OUTPUT } : output.isError ? { error: text } : { output: text };
      const name = this.#options.upstreamName(call.name, call.namespace);
      const own = this.#writeParts(parts.filter(({ kind }) => kind !== "text"));
      const isInside = own.length > 0 && !isBefore(this.#options.target.upstreamModel, 3);
      outputs.push({
        functionResponse: { ...this.#writeCallId(call), name, response, ...(isInside ? { parts: own } : {}) },
      });
      if (!isInside) media.push(...own);
    }
    this.#add("user", [...outputs, ...media]);
  }

  #writeParts(parts: readonly HubPart[]): Json[] {
    return parts.map((part) => this.#writePart(part)).filter((part) => part !== null);
  }

  /** Null for an empty text, which Google rejects. */
  #writePart(part: HubPart): Json | null {
    switch (part.kind) {
      case "text":
      case "refusal":
        return part.text === "" ? null : { text: part.text };
      case "image":
        return writeMedia(part.source, "image_url", "Send the image as a data URL.");
      case "file":
        return writeMedia(part.source, "file", "Send the content of the file as a data URL.");
      case "audio":
        return { inlineData: { mimeType: `audio/${part.format}`, data: part.base64 } };
    }
  }
}

/** The gateway never fetches an address that a client names. */
function writeMedia(source: MediaSource, param: string, advice: string): Json {
  if (source.kind === "base64") return { inlineData: { mimeType: source.mediaType, data: source.base64 } };
  if (source.kind === "url" && READABLE_URL.test(source.url))
    return {
      fileData: {
        fileUri: source.url,
        ...(source.mediaType === null ? {} : { mimeType: source.mediaType }),
      },
    };
  throw unsupportedField(param, advice);
}
