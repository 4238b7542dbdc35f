/** Writes the items of a conversation as the turns of a Messages request. */

import { keepTexts } from "../hub/assistant-parts.ts";
import { parseCallInput } from "../hub/call-input.ts";
import { wrapCustomInput } from "../hub/custom-input.ts";
import type { WriteTarget } from "../hub/dialect-codec.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type {
  CacheHint,
  HubItem,
  HubPart,
  MediaSource,
  ReasoningItem,
  RefusalPart,
  TextPart,
} from "../hub/hub-request.ts";
import { formatCacheControl } from "../hub/media.ts";
import type { ToolNameTable } from "../hub/tool-names.ts";
import { type AssistantTurn, type CompletedCall, groupTurns } from "../hub/turns.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";

type Block = Record<string, unknown>;

interface Message {
  readonly role: "user" | "assistant";
  readonly content: Block[];
}

const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const PDF = "application/pdf";
const CALL_ID = /^[A-Za-z0-9_-]{1,128}$/;

export interface WrittenTurns {
  readonly messages: readonly Message[];
  /** A turn with calls has lost its thinking: a budget of thinking would be rejected. */
  readonly hasLostThinking: boolean;
}

export class MessagesTurnWriter {
  readonly #target: WriteTarget;
  readonly #names: ToolNameTable;
  readonly #dropped: DroppedFields;
  readonly #messages: Message[] = [];
  #hasLostThinking = false;

  constructor(target: WriteTarget, names: ToolNameTable, dropped: DroppedFields) {
    this.#target = target;
    this.#names = names;
    this.#dropped = dropped;
  }

  write(items: readonly HubItem[]): WrittenTurns {
    for (const turn of groupTurns(items)) {
      if (turn.kind === "foreign") this.#dropped.add(turn.path);
      else if (turn.kind === "assistant") this.#writeAssistant(turn);
      else this.#writeMessage(turn.parts, turn.role);
    }
    this.#trimEnd();
    if (this.#messages[0]?.role !== "user") this.#messages.unshift(placeholder());
    return { messages: this.#messages, hasLostThinking: this.#hasLostThinking };
  }

  /** Neighbours of the same role are one message. */
  #add(role: Message["role"], blocks: readonly Block[]): void {
    if (blocks.length === 0) return;
    const last = this.#messages.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else this.#messages.push({ role, content: [...blocks] });
  }

  #writeMessage(parts: readonly HubPart[], role: "user" | "system"): void {
    const blocks = this.#writeParts(parts, role === "system");
    const isLost = blocks.length === 0 && role === "user" && this.#messages.at(-1)?.role === "assistant";
    // Without a turn of the user, the model would continue the text of the assistant.
    if (isLost) this.#messages.push(placeholder());
    else this.#add("user", blocks);
  }

  #writeAssistant({ reasoning, parts, calls }: AssistantTurn): void {
    const thinking = reasoning.flatMap((item): Block[] => this.#writeThinking(item));
    this.#hasLostThinking = calls.length > 0 && thinking.length === 0;
    const blocks = [
      ...thinking,
      ...this.#writeParts(keepTexts(parts, this.#dropped), false),
      ...calls.map((one) => this.#writeCall(one)),
    ];
    this.#add("assistant", blocks);
    this.#add(
      "user",
      calls.map((one) => this.#writeOutput(one)),
    );
  }

  /** Only thinking that this account has signed: another one would be rejected. */
  #writeThinking({ text: thinking, opaque }: ReasoningItem): Block[] {
    const state = opaque === null ? null : this.#target.sealer.open(opaque);
    if (state?.field === "redacted_thinking") return [{ type: "redacted_thinking", data: state.value }];
    if (state?.field === "signature") return [{ type: "thinking", thinking, signature: state.value }];
    if (opaque !== null) this.#dropped.add("reasoning");
    return [];
  }

  #writeCall({ call }: CompletedCall): Block {
    const input = call.tool === "custom" ? wrapCustomInput(call.input) : call.input;
    return {
      type: "tool_use",
      id: writeCallId(call.callId),
      name: this.#names.upstreamName(call.name, call.namespace),
      input: parseCallInput(input),
    };
  }

  #writeOutput({ call, output }: CompletedCall): Block {
    const id = { type: "tool_result", tool_use_id: writeCallId(call.callId) };
    if (output === null) return { ...id, is_error: true, content: "No result was recorded." };
    const content = this.#writeParts(output.parts, false);
    return {
      ...id,
      ...(content.length === 0 ? {} : { content }),
      ...(output.isError ? { is_error: true } : {}),
      ...cacheControl(output.cacheHint),
    };
  }

  /** The API rejects empty texts, and a message whose texts are all white space. */
  #writeParts(parts: readonly HubPart[], isSystem: boolean): Block[] {
    const isBlankAlone = !parts.some((part) => isText(part) && !isBlank(part.text));
    const written = isBlankAlone ? parts.filter((part) => !isText(part)) : parts;
    return written.flatMap((part) => this.#writePart(part, isSystem));
  }

  #writePart(part: HubPart, isSystem: boolean): Block[] {
    switch (part.kind) {
      case "text": {
        if (part.text === "") return [];
        const value = isSystem ? `<system-reminder>\n${part.text}\n</system-reminder>` : part.text;
        return [{ ...text(value), ...cacheControl(part.cacheHint) }];
      }
      case "refusal":
        return part.text === "" ? [] : [text(part.text)];
      case "image":
        this.#checkSource(part.source, "image_url");
        return [{ type: "image", source: writeImage(part.source), ...cacheControl(part.cacheHint) }];
      case "file":
        this.#checkSource(part.source, "file_url");
        return [writeDocument(part.source, part.filename, part.cacheHint)];
      case "audio":
        throw unsupportedField("input_audio", "Send the text of the recording instead.");
    }
  }

  /** Amazon Bedrock and Google Vertex AI fetch no addresses. */
  #checkSource({ kind }: MediaSource, field: string): void {
    if (kind === "url" && this.#target.profile.imageUrl === "inline")
      throw unsupportedField(field, "Send the content as a data URL.");
  }

  /** The API rejects a last turn of the assistant that ends in white space. */
  #trimEnd(): void {
    const last = this.#messages.at(-1);
    if (last?.role !== "assistant") return;
    for (let block = last.content.at(-1); typeof block?.text === "string"; block = last.content.at(-1)) {
      block.text = block.text.trimEnd();
      if (block.text !== "") return;
      last.content.pop();
    }
  }
}

/** In place of a turn of the user that has no content. */
function placeholder(): Message {
  return { role: "user", content: [text(".")] };
}

function isText(part: HubPart): part is TextPart | RefusalPart {
  return part.kind === "text" || part.kind === "refusal";
}

export function isBlank(value: string): boolean {
  return value.trim() === "";
}

function text(value: string): Block {
  return { type: "text", text: value };
}

export function cacheControl(hint: CacheHint | null): Block {
  return hint === null ? {} : { cache_control: formatCacheControl(hint) };
}

/** Other dialects have ids with other characters. The same id is always written in the same way. */
function writeCallId(id: string): string {
  return CALL_ID.test(id) ? id : `call_${Bun.hash(id).toString(36)}`;
}

function writeImage(source: MediaSource): object {
  if (source.kind === "url") return { type: "url", url: source.url };
  if (source.kind === "file_id") throw unsupportedField("file_id", "Send the image as a data URL.");
  if (!IMAGE_TYPES.has(source.mediaType))
    throw unsupportedField("image_url", "Send a JPEG, PNG, GIF or WebP image.");
  return { type: "base64", media_type: source.mediaType, data: source.base64 };
}

function writeDocument(source: MediaSource, filename: string | null, hint: CacheHint | null): Block {
  if (source.kind === "file_id") throw unsupportedField("file_id", "Send the file as a data URL.");
  const isText = source.kind === "base64" && source.mediaType.startsWith("text/");
  if (source.kind === "base64" && !isText && source.mediaType !== PDF)
    throw unsupportedField("file", "Send a PDF file or a text file.");
  const content =
    source.kind === "url"
      ? { type: "url", url: source.url }
      : isText
        ? { type: "text", media_type: "text/plain", data: Buffer.from(source.base64, "base64").toString() }
        : { type: "base64", media_type: PDF, data: source.base64 };
  return {
    type: "document",
    source: content,
    ...(filename === null ? {} : { title: filename }),
    ...cacheControl(hint),
  };
}
