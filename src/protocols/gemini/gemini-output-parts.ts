/** Reads the parts of a Gemini response as items, one after the other. A stream and a whole response have the same parts. */

import { CallIds } from "../hub/call-ids.ts";
import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTool, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { OpaqueState } from "../hub/hub-request.ts";
import type { HubEvent } from "../hub/hub-response.ts";
import { type Json, readString } from "../hub/json-values.ts";
import { objectMember } from "./gemini-members.ts";
import { isWithoutState } from "./thought-signature.ts";

type TextKind = "text" | "reasoning";

export class OutputParts {
  readonly #options: ResponseReadOptions;
  readonly #events: HubEvent[];
  #callIds = new CallIds(null);
  #open: TextKind | null = null;
  hasContent = false;
  hasCalls = false;

  /** Events are added to the list. */
  constructor(options: ResponseReadOptions, events: HubEvent[]) {
    this.#options = options;
    this.#events = events;
  }

  /** Calls without an id get one from the response's. */
  setResponseId(responseId: string | null): void {
    this.#callIds = new CallIds(responseId);
  }

  add(part: Json): void {
    const call = objectMember(part, "functionCall");
    if (call !== null) {
      this.#addCall(call, readString(part.thoughtSignature));
      return;
    }
    const text = readString(part.text) ?? "";
    if (text === "") return;
    this.hasContent = true;
    this.#openText(part.thought === true ? "reasoning" : "text");
    this.#events.push({ type: "delta", text });
  }

  end(isCut: boolean): void {
    this.#endText(null, isCut);
  }

  #openText(kind: TextKind): void {
    if (this.#open === kind) return;
    this.#endText(null, false);
    this.#events.push({ type: "item_start", item: kind === "text" ? { kind } : { kind, isSummary: true } });
    this.#open = kind;
  }

  #endText(opaque: OpaqueState | null, isCut: boolean): void {
    if (this.#open !== null) this.#events.push({ type: "item_end", opaque, isCut });
    this.#open = null;
  }

  #addCall({ id, name, args }: Json, signature: string | null): void {
    this.hasContent = true;
    this.hasCalls = true;
    const opaque =
      signature === null || isWithoutState(signature)
        ? null
        : this.#options.sealer.seal({ field: "thought_signature", value: signature });
    if (opaque !== null) this.#endReasoning(opaque);
    else this.#endText(null, false);
    const tool = this.#resolveTool(readString(name) ?? "");
    this.#events.push({
      type: "item_start",
      item: { kind: "call", callId: this.#callIds.assign(id), ...tool },
    });
    const json = JSON.stringify(args ?? {});
    this.#events.push({ type: "delta", text: tool.tool === "custom" ? unwrapCustomInput(json) : json });
    this.#events.push({ type: "item_end", opaque, isCut: false });
  }

  /** Other dialects carry opaque state in reasoning, so the signature of a call ends the reasoning before it. */
  #endReasoning(opaque: OpaqueState): void {
    if (this.#open !== "reasoning") {
      this.#endText(null, false);
      this.#events.push({ type: "item_start", item: { kind: "reasoning", isSummary: true } });
      this.#open = "reasoning";
    }
    this.#endText(opaque, false);
  }

  #resolveTool(name: string): ClientTool {
    return this.#options.toolNames.resolve(name) ?? { name, namespace: null, tool: "function" };
  }
}
