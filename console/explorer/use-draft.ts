/** The draft of a request: its operation and the typed values. The address of the page follows it. */

import { useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from "react";
import { buildAddress, parseAddress } from "./address.ts";
import { type ExplorerOperation, findOperation, firstOperation } from "./described.ts";
import { type Chosen, NO_FILES } from "./picture-files.tsx";

export interface Draft {
  readonly operation: ExplorerOperation;
  /** As typed; null: the text of the example. */
  readonly body: string | null;
  /** The name of the chosen example; null: the first one. */
  readonly example: string | null;
  /** Of the path and the query, by name, as typed. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly files: Chosen;
}

/** Restores the values typed for the operation before, unless the address contains a body. */
function draftAt(fragment: string, earlier: ReadonlyMap<string, Draft>): Draft {
  const place = parseAddress(fragment);
  const operation = (place && findOperation(place.operation)) ?? firstOperation();
  const before = earlier.get(operation.id) ?? {
    operation,
    body: null,
    example: null,
    parameters: {},
    files: NO_FILES,
  };
  return { ...before, body: place?.body ?? before.body };
}

/** `onLeave` is called before the draft of another operation is shown. */
export function useDraft(onLeave: () => void) {
  /** By operation id. */
  const earlier = useRef(new Map<string, Draft>());
  const [draft, setDraft] = useState(() => draftAt(location.hash, earlier.current));
  // Every endpoint is a link, so that the browser's back and forward lead through them.
  const follow = useEffectEvent((fragment: string) => {
    onLeave();
    earlier.current.set(draft.operation.id, draft);
    setDraft(draftAt(fragment, earlier.current));
  });
  // Before the links are visible, so that no click on them is missed.
  useLayoutEffect(() => {
    // The timer below can write the earlier address between the change and this event, which has the chosen one.
    const onHash = ({ newURL }: HashChangeEvent) => follow(new URL(newURL).hash);
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, []);
  return { draft, change: (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes })) };
}

/** Browsers reject an address that changes with every keystroke. */
const ADDRESS_AFTER_MS = 300;

/** Keeps the address of the page up to date, and returns it. */
export function useAddress(draft: Draft, body: string): string {
  // The first example stays out of the address: it names a model of the key, which another reader may not have.
  const isLinked = draft.body !== null || draft.example !== null;
  const address = buildAddress({ operation: draft.operation.id, body: isLinked ? body : null });
  useEffect(() => {
    const timer = setTimeout(() => history.replaceState(null, "", address), ADDRESS_AFTER_MS);
    return () => clearTimeout(timer);
  }, [address]);
  return address;
}
