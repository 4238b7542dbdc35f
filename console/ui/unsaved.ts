/** Whoever leaves a page with changes that are not saved is asked first, whichever way they go. */

import { useEffect } from "react";
import { useText } from "../text/text.tsx";

/** Null while there is nothing to lose. One page is shown at a time. */
let question: string | null = null;

export function useUnsaved(isChanged: boolean): void {
  const { leave } = useText("kit");
  useEffect(() => {
    if (!isChanged) return;
    question = leave;
    const onUnload = (event: BeforeUnloadEvent) => event.preventDefault();
    // Back and forth. Browsers without `navigation` cannot be held there.
    const onNavigate = (event: NavigateEvent) => {
      if (event.navigationType === "traverse" && event.cancelable && !mayLeave()) event.preventDefault();
    };
    addEventListener("beforeunload", onUnload);
    globalThis.navigation?.addEventListener("navigate", onNavigate);
    return () => {
      question = null;
      removeEventListener("beforeunload", onUnload);
      globalThis.navigation?.removeEventListener("navigate", onNavigate);
    };
  }, [isChanged, leave]);
}

/** Asks where there is something to lose. */
function mayLeave(): boolean {
  return question === null || confirm(question);
}

/** Of a link or a button that leads to another page; a page may change what its own address asks for. */
export function mayGo(to: string): boolean {
  return new URL(to, location.href).pathname === location.pathname || mayLeave();
}
