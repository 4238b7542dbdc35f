import type { PlannedResponse, ResponseStatus } from "./response-object.ts";

/** Responses that can be asked for again. Oldest out first: a simulator is no archive. */
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
  const kept = new Map<string, StoredResponse>();
  let chars = 0;
  const remove = (id: string): boolean => {
    const stored = kept.get(id);
    if (stored === undefined) return false;
    chars -= charsOf(stored.planned);
    return kept.delete(id);
  };
  return {
    get: (id) => kept.get(id),
    put(stored) {
      kept.set(stored.planned.id, stored);
      chars += charsOf(stored.planned);
      for (const id of kept.keys()) {
        if (kept.size <= RESPONSES_MAX && chars <= CHARS_MAX) break;
        remove(id);
      }
    },
    delete: remove,
  };
}

function charsOf(planned: PlannedResponse): number {
  let chars = planned.input.length + planned.constantPart.length;
  for (const item of planned.items) chars += item.kind === "call" ? item.arguments.length : item.text.length;
  return chars;
}
