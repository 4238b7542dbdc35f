/**
 * Puts the items of a stream one after the other. Upstreams may interleave them, for example parallel calls; clients
 * of some dialects accept only one open item. The first open item flows; the deltas of others wait for its end.
 */

import { withCitations } from "./citations.ts";
import type { Citation, OpaqueState } from "./hub-request.ts";
import type { HubEvent, ItemEndEvent, StartedItem } from "./hub-response.ts";
import type { ResponseBounds } from "./response-bounds.ts";
import { TextPieces } from "./text-pieces.ts";

interface Lane {
  readonly item: StartedItem;
  /** What has waited so far. */
  readonly text: TextPieces;
  end: ItemEndEvent | null;
}

export interface ItemEnd {
  readonly opaque?: OpaqueState | null;
  /** The upstream stopped in the middle of the item. */
  readonly isCut?: boolean;
  readonly citations?: readonly Citation[];
}

export class ItemSequencer {
  /** Items that have begun and are not written completely, in order of their begin. The first one flows. */
  readonly #lanes = new Map<string, Lane>();
  readonly #events: HubEvent[];
  readonly #bounds: ResponseBounds;

  /** Events are added to the list. */
  constructor(events: HubEvent[], bounds: ResponseBounds) {
    this.#events = events;
    this.#bounds = bounds;
  }

  has(key: string): boolean {
    return this.#lanes.has(key);
  }

  get openKeys(): readonly string[] {
    return [...this.#lanes.keys()];
  }

  /** An item that begins under the key of an open one cuts that one off. */
  start(key: string, item: StartedItem): void {
    if (this.#lanes.has(key)) this.#cutOff(key);
    this.#bounds.addItem();
    this.#lanes.set(key, { item, text: new TextPieces(), end: null });
    this.#bounds.checkOpenItems(this.#lanes.size);
    if (this.#lanes.size === 1) this.#events.push({ type: "item_start", item });
  }

  delta(key: string, text: string): void {
    const lane = this.#lanes.get(key);
    if (lane === undefined || text === "") return;
    if (this.#isFirst(key)) this.#events.push({ type: "delta", text });
    else {
      this.#bounds.addText(text.length);
      lane.text.add(text);
    }
  }

  end(key: string, { opaque = null, isCut = false, citations }: ItemEnd = {}): void {
    const lane = this.#lanes.get(key);
    if (lane === undefined) return;
    lane.end = { type: "item_end", opaque, isCut, ...withCitations(citations) };
    if (this.#isFirst(key)) this.#writeEnded();
  }

  /** Items that began before it end with it, so that the key is free. */
  #cutOff(key: string): void {
    for (const open of this.openKeys) {
      if (this.#lanes.get(open)?.end === null) this.end(open, { isCut: true });
      if (!this.#lanes.has(key)) return;
    }
  }

  #isFirst(key: string): boolean {
    const first = this.#lanes.keys().next();
    return !first.done && first.value === key;
  }

  /** Writes the end of the first item and what has waited for it. */
  #writeEnded(): void {
    let isFlowing = true;
    for (const [key, lane] of this.#lanes) {
      if (!isFlowing) {
        this.#events.push({ type: "item_start", item: lane.item });
        if (lane.text.length > 0) this.#events.push({ type: "delta", text: lane.text.toString() });
      }
      isFlowing = false;
      if (lane.end === null) return;
      this.#events.push(lane.end);
      this.#lanes.delete(key);
    }
  }
}
