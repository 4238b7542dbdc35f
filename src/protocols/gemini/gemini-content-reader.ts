/** Reads the contents of a Gemini request as items of a conversation. */

import { paramError } from "../../errors.ts";
import type { CallItem, HubItem, HubPart, MediaSource } from "../hub/hub-request.ts";
import { type Json, readObject, readObjects, readString } from "../hub/json-values.ts";
import { member, objectMember } from "./gemini-members.ts";
import { readSignature } from "./thought-signature.ts";

/** Files that Google stores for its own models. */
const GOOGLE_FILE = /^https:\/\/generativelanguage\.googleapis\.com\/|^files\//;

export class ContentReader {
  readonly items: HubItem[] = [];
  readonly unread: string[] = [];
  readonly #openCalls = new OpenCalls();
  #calls = 0;

  read(contents: unknown): void {
    const list = Array.isArray(contents) ? contents : [contents];
    for (const [at, content] of list.entries()) {
      if (typeof content === "string") this.#addMessage("user", [text(content)]);
      else this.#readContent(readObject(content) ?? {}, `contents[${at}]`);
    }
  }

  #readContent(content: Json, path: string): void {
    const role = content.role === "model" ? "assistant" : "user";
    let parts: HubPart[] = [];
    const flush = () => {
      if (parts.length > 0) this.#addMessage(role, parts);
      parts = [];
    };
    for (const [at, part] of readObjects(content.parts).entries()) {
      const call = objectMember(part, "functionCall");
      const response = objectMember(part, "functionResponse");
      if (call !== null) {
        flush();
        this.#readCall(call, part);
      } else if (response !== null) {
        flush();
        this.#readOutput(response, path);
      } else if (part.thought === true) {
        flush();
        this.#readThought(part);
      } else {
        const read = readPart(part);
        if (read === null) this.#noteUnread(part, `${path}.parts[${at}]`);
        else if (read !== "empty") parts.push(read);
        this.#readTextSignature(part);
      }
    }
    flush();
  }

  #addMessage(role: "user" | "assistant", parts: readonly HubPart[]): void {
    this.items.push({ kind: "message", role, parts });
  }

  #noteUnread(part: Json, path: string): void {
    const [name = "part"] = Object.keys(part);
    this.unread.push(`${path}.${name}`);
  }

  /** A call's signature holds the thoughts before it, which other dialects have as reasoning. */
  #readCall(call: Json, part: Json): void {
    const signed = readSignature(member(part, "thoughtSignature"));
    if (signed !== null) this.#addReasoning(signed.text, signed.opaque);
    const item: CallItem = {
      kind: "call",
      callId: readString(call.id) || `call_${this.#calls}`,
      name: readString(call.name) ?? "",
      namespace: null,
      tool: "function",
      input: JSON.stringify(call.args ?? {}),
      opaque: signed?.opaque ?? null,
    };
    this.#calls++;
    this.items.push(item);
    this.#openCalls.add(item);
  }

  #readThought(part: Json): void {
    const signed = readSignature(member(part, "thoughtSignature"));
    const shown = readString(part.text) ?? "";
    if (shown !== "" || signed !== null) this.#addReasoning(shown, signed?.opaque ?? null);
  }

  #readTextSignature(part: Json): void {
    const signed = readSignature(member(part, "thoughtSignature"));
    if (signed !== null) this.#addReasoning(signed.text, signed.opaque);
  }

  #addReasoning(shown: string, opaque: CallItem["opaque"]): void {
    this.items.push({ kind: "reasoning", text: shown, isSummary: true, opaque });
  }

  #readOutput(response: Json, path: string): void {
    const call = this.#takeCall(readString(response.id), readString(response.name) ?? "", path);
    const result = readObject(response.response) ?? {};
    const isError = result.error !== undefined && result.output === undefined;
    const media = readObjects(response.parts).flatMap((part) => {
      const read = readPart(part);
      return read === null || read === "empty" ? [] : [read];
    });
    this.items.push({
      kind: "call_output",
      callId: call.callId,
      tool: "function",
      parts: [text(formatResult(result)), ...media],
      isError,
      cacheHint: null,
    });
  }

  #takeCall(id: string | null, name: string, path: string): CallItem {
    const call = this.#openCalls.take(id, name);
    if (call !== null) return call;
    throw paramError(
      path,
      "invalid_value",
      `\`${path}\` contains a response of the function '${name.slice(0, 64)}' without a call before it. Send the call first.`,
    );
  }
}

/** Calls without an output. Google's clients need not send ids: then the first open call of the name is meant. */
class OpenCalls {
  readonly #byId = new Map<string, CallQueue>();
  readonly #byName = new Map<string, CallQueue>();
  readonly #open = new Set<CallItem>();

  add(call: CallItem): void {
    this.#open.add(call);
    append(this.#byId, call.callId, call);
    append(this.#byName, call.name, call);
  }

  /** Null if no open call has the id or the name. */
  take(id: string | null, name: string): CallItem | null {
    const call =
      (id === null || id === "" ? null : this.#first(this.#byId.get(id))) ??
      this.#first(this.#byName.get(name));
    if (call !== null) this.#open.delete(call);
    return call;
  }

  /** A call is in two queues. The one that was taken from the other is passed over once. */
  #first(queue: CallQueue | undefined): CallItem | null {
    for (; queue !== undefined && queue.next < queue.calls.length; queue.next++) {
      const call = queue.calls[queue.next];
      if (call !== undefined && this.#open.has(call)) return call;
    }
    return null;
  }
}

interface CallQueue {
  readonly calls: CallItem[];
  /** The calls before this position have an output. */
  next: number;
}

function append(queues: Map<string, CallQueue>, key: string, call: CallItem): void {
  const queue = queues.get(key);
  if (queue === undefined) queues.set(key, { calls: [call], next: 0 });
  else queue.calls.push(call);
}

function text(value: string): HubPart {
  return { kind: "text", text: value, cacheHint: null };
}

/** Google's own clients put the result into `output` or `error`. */
function formatResult(result: Json): string {
  const value = result.output ?? result.error ?? result;
  return typeof value === "string" ? value : JSON.stringify(value);
}

function readPart(part: Json): HubPart | "empty" | null {
  if (typeof part.text === "string") return part.text === "" ? "empty" : text(part.text);
  const inline = objectMember(part, "inlineData");
  if (inline !== null) {
    const mediaType = readString(member(inline, "mimeType")) ?? "application/octet-stream";
    return readMedia(mediaType, { kind: "base64", mediaType, base64: readString(inline.data) ?? "" });
  }
  const file = objectMember(part, "fileData");
  if (file === null) return null;
  const url = readString(member(file, "fileUri")) ?? "";
  const mediaType = readString(member(file, "mimeType"));
  return GOOGLE_FILE.test(url)
    ? readMedia(mediaType ?? "", { kind: "file_id", id: url })
    : readMedia(mediaType ?? "", { kind: "url", url, mediaType });
}

function readMedia(mediaType: string, source: MediaSource): HubPart {
  if (mediaType.startsWith("image/")) return { kind: "image", source, detail: null, cacheHint: null };
  const audio = /^audio\/(?:x-)?(wav|mp3|mpeg)$/.exec(mediaType)?.[1];
  if (audio !== undefined && source.kind === "base64")
    return { kind: "audio", format: audio === "mpeg" ? "mp3" : audio, base64: source.base64 };
  return { kind: "file", source, filename: null, cacheHint: null };
}
