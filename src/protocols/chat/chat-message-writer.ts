/** Writes the messages of a Chat Completions request. */

import { keepTexts } from "../hub/assistant-parts.ts";
import { wrapCustomInput } from "../hub/custom-input.ts";
import type { WriteTarget } from "../hub/dialect-codec.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { CallItem, HubPart, HubRequest, MediaSource, TextPart } from "../hub/hub-request.ts";
import { formatCacheControl, formatMediaUrl } from "../hub/media.ts";
import type { ToolNameTable } from "../hub/tool-names.ts";
import { type AssistantTurn, type CompletedCall, groupTurns, type HubTurn } from "../hub/turns.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { writeThinking } from "./chat-content.ts";
import { ShortCallIds } from "./short-call-ids.ts";

type Message = Record<string, unknown>;

interface MessageOptions {
  readonly target: WriteTarget;
  readonly names: ToolNameTable;
  readonly dropped: DroppedFields;
  /** Instructions for the format of the response, if the upstream cannot enforce it. */
  readonly formatText: string | null;
}

/** What a call without an output reports: Chat requires one for every call. */
const NO_OUTPUT = "aborted";

export function writeChatMessages(request: HubRequest, options: MessageOptions): Message[] {
  return new MessageWriter(request, options).write();
}

class MessageWriter {
  readonly #request: HubRequest;
  readonly #options: MessageOptions;
  readonly #messages: Message[] = [];
  readonly #shortIds: ShortCallIds | null;

  constructor(request: HubRequest, options: MessageOptions) {
    this.#request = request;
    this.#options = options;
    this.#shortIds = options.target.profile.shortCallIds === true ? new ShortCallIds() : null;
  }

  write(): Message[] {
    this.#writeInstructions();
    for (const turn of groupTurns(this.#request.items)) this.#writeTurn(turn);
    return this.#messages;
  }

  #writeInstructions(): void {
    const { formatText } = this.#options;
    const parts: TextPart[] = [...this.#request.instructions];
    if (formatText !== null) parts.push({ kind: "text", text: formatText, cacheHint: null });
    if (parts.length === 0) return;
    const hasHints = this.#keepsHints() && parts.some(({ cacheHint }) => cacheHint !== null);
    // Many servers accept only one system message, and only text in it.
    const content = hasHints
      ? parts.map((part) => this.#writeText(part))
      : parts.map(({ text }) => text).join("\n\n");
    this.#messages.push({ role: this.#options.target.profile.systemRole, content });
  }

  #keepsHints(): boolean {
    return this.#options.target.profile.cache === "explicit";
  }

  #writeTurn(turn: HubTurn): void {
    switch (turn.kind) {
      case "assistant":
        this.#writeAssistant(turn);
        return;
      case "foreign":
        this.#options.dropped.add(turn.path);
        return;
      case "message":
        if (turn.role === "user")
          this.#messages.push({ role: "user", content: this.#writeContent(turn.parts) });
        else this.#writeSystem(turn.parts);
        return;
    }
  }

  #writeSystem(parts: readonly HubPart[]): void {
    const { systemRole, systemPosition } = this.#options.target.profile;
    const text = joinTexts(parts, "\n\n");
    if (systemPosition === "any") this.#messages.push({ role: systemRole, content: text });
    else this.#messages.push({ role: "user", content: `[System message]\n${text}` });
  }

  #writeAssistant(turn: AssistantTurn): void {
    const parts = keepTexts(turn.parts, this.#options.dropped);
    const text = joinTexts(parts, "");
    const refusal = parts.find((part) => part.kind === "refusal");
    const calls = turn.calls.map(({ call }) => this.#writeCall(call));
    const reasoning = this.#pickReasoning(turn);
    // A turn of reasoning alone has no counterpart.
    if (text === "" && calls.length === 0 && refusal === undefined && reasoning === null) return;
    const { reasoningField } = this.#options.target.profile;
    const content = text === "" && calls.length > 0 ? null : text;
    this.#messages.push({
      role: "assistant",
      ...(reasoning === null
        ? { content }
        : reasoningField === "content"
          ? { content: [writeThinking(reasoning), ...(text === "" ? [] : [{ type: "text", text }])] }
          : { content, [reasoningField]: reasoning }),
      ...(refusal === undefined ? {} : { refusal: refusal.text }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    });
    this.#writeOutputs(turn.calls);
  }

  /** The reasoning to send back; null if there is none, or the account does not accept it. */
  #pickReasoning({ reasoning, calls }: AssistantTurn): string | null {
    const { reasoningField, reasoningReplay } = this.#options.target.profile;
    const text = reasoning.map((item) => item.text).join("\n\n");
    const isSent = reasoningField !== "none" && reasoningReplay !== "refused";
    if (isSent && (text !== "" || (reasoningReplay === "required" && calls.length > 0))) return text;
    if (reasoning.length > 0) this.#options.dropped.add("reasoning");
    return null;
  }

  #writeCall({ callId, name, namespace, tool, input }: CallItem): Record<string, unknown> {
    const { names, target } = this.#options;
    const upstreamName = names.upstreamName(name, namespace);
    const id = this.#writeCallId(callId);
    if (tool === "custom" && target.profile.customTools)
      return { id, type: "custom", custom: { name: upstreamName, input } };
    const text = tool === "custom" ? wrapCustomInput(input) : input === "" ? "{}" : input;
    return { id, type: "function", function: { name: upstreamName, arguments: text } };
  }

  #writeCallId(callId: string): string {
    return this.#shortIds?.assign(callId) ?? callId;
  }

  /** Outputs follow their calls at once. Their images follow in a message of the user: outputs contain text only. */
  #writeOutputs(calls: readonly CompletedCall[]): void {
    const media: HubPart[] = [];
    for (const { call, output } of calls) {
      const parts = output?.parts ?? [];
      const text = output === null ? NO_OUTPUT : joinTexts(parts, "\n");
      const content = output?.isError ? `Error: ${text}` : text;
      const shown = parts.filter(({ kind }) => kind === "image" || kind === "file" || kind === "audio");
      this.#messages.push({
        role: "tool",
        tool_call_id: this.#writeCallId(call.callId),
        content: content === "" && shown.length > 0 ? "The output follows in the next message." : content,
      });
      media.push(...shown);
    }
    if (media.length > 0) this.#messages.push({ role: "user", content: this.#writeContent(media) });
  }

  #writeContent(parts: readonly HubPart[]): string | Record<string, unknown>[] {
    const [only] = parts;
    if (only === undefined) return "";
    if (parts.length === 1 && only.kind === "text" && (only.cacheHint === null || !this.#keepsHints()))
      return only.text;
    return parts.map((part) => this.#writePart(part));
  }

  #writeText({ text, cacheHint }: TextPart): Record<string, unknown> {
    return { type: "text", text, ...this.#writeHint(cacheHint) };
  }

  #writeHint(cacheHint: TextPart["cacheHint"]): Record<string, unknown> {
    return cacheHint !== null && this.#keepsHints() ? { cache_control: formatCacheControl(cacheHint) } : {};
  }

  #writePart(part: HubPart): Record<string, unknown> {
    switch (part.kind) {
      case "text":
        return this.#writeText(part);
      case "refusal":
        return { type: "text", text: part.text };
      case "image": {
        const { profile } = this.#options.target;
        const url = formatMediaUrl(part.source);
        if (url === null || (part.source.kind === "url" && profile.imageUrl === "inline"))
          throw unsupportedField("image_url", "Send the image as a data URL.");
        const image_url = { url, ...(part.detail === null ? {} : { detail: part.detail }) };
        return { type: "image_url", image_url, ...this.#writeHint(part.cacheHint) };
      }
      case "file":
        return this.#writeFile(part.source, part.filename);
      case "audio":
        return { type: "input_audio", input_audio: { data: part.base64, format: part.format } };
    }
  }

  #writeFile(source: MediaSource, filename: string | null): Record<string, unknown> {
    if (source.kind !== "base64")
      throw unsupportedField("file", "Send the content of the file as a data URL in `file_data`.");
    if (source.mediaType === "application/pdf" && !this.#options.target.profile.pdf)
      throw unsupportedField("file", "The model cannot read PDF files. Send their text.");
    const file_data = formatMediaUrl(source);
    return { type: "file", file: { file_data, ...(filename === null ? {} : { filename }) } };
  }
}

function joinTexts(parts: readonly HubPart[], separator: string): string {
  return parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join(separator);
}
