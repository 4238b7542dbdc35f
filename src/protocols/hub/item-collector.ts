/** Collects the items of a stream, for the conversation that a later request continues. */

import { withCitations } from "./citations.ts";
import type { HubEvent, ItemEndEvent, OutputItem, StartedItem } from "./hub-response.ts";
import { TextPieces } from "./text-pieces.ts";

export class ItemCollector {
  readonly #items: OutputItem[] = [];
  #open: { readonly item: StartedItem; readonly text: TextPieces } | null = null;

  /** The items that are complete. */
  get items(): readonly OutputItem[] {
    return this.#items;
  }

  add(event: HubEvent): void {
    switch (event.type) {
      case "item_start":
        this.#open = { item: event.item, text: new TextPieces() };
        return;
      case "delta":
        this.#open?.text.add(event.text);
        return;
      case "item_end":
        // A call that was cut off cannot be run, so the conversation does not contain it.
        if (this.#open !== null && !(event.isCut && this.#open.item.kind === "call"))
          this.#items.push(buildItem(this.#open.item, this.#open.text.toString(), event));
        this.#open = null;
        return;
    }
  }
}

function buildItem(item: StartedItem, text: string, { opaque, citations }: ItemEndEvent): OutputItem {
  switch (item.kind) {
    case "text": {
      const part = { kind: "text" as const, text, cacheHint: null, ...withCitations(citations) };
      return { kind: "message", role: "assistant", parts: [part] };
    }
    case "refusal":
      return { kind: "message", role: "assistant", parts: [{ kind: "refusal", text }] };
    case "reasoning":
      return { ...item, text, opaque };
    case "call":
      return { ...item, input: text, opaque };
    case "search":
      return item;
  }
}
