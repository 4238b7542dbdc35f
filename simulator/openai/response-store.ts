/** Stored responses of the simulator. */

import type { OutputItem, PlannedResponse, ResponseStatus } from "./response-object.ts";

/** A response that can be retrieved. The oldest ones are removed first. */
export interface StoredResponse {
  planned: PlannedResponse;
  status: ResponseStatus;
  events: number | null;
}

export interface ResponseStore {
  get(id: string): StoredResponse | undefined;
  put(stored: StoredResponse): void;
  delete(id: string): boolean;
}

const RESPONSES_MAX = 2_000;
const CHARS_MAX = 64 * 1024 * 1024;

export function createResponseStore(): ResponseStore {
  const byId = new Map<string, StoredResponse>();
  let chars = 0;
  const remove = (id: string): boolean => {
    const stored = byId.get(id);
    if (stored === undefined) return false;
    chars -= countChars(stored.planned);
    return byId.delete(id);
  };
  return {
    get: (id) => byId.get(id),
    put(stored) {
      byId.set(stored.planned.id, stored);
      chars += countChars(stored.planned);
      for (const id of byId.keys()) {
        if (byId.size <= RESPONSES_MAX && chars <= CHARS_MAX) break;
        remove(id);
      }
    },
    delete: remove,
  };
}

function countChars(planned: PlannedResponse): number {
  let chars = planned.input.length + planned.constantPart.length;
  for (const item of planned.items) chars += itemText(item).length;
  return chars;
}

function itemText(item: OutputItem): string {
  if (item.kind === "search") return "";
  return item.kind === "call" ? item.arguments : item.text;
}
