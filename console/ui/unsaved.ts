/** Shows a confirmation before a page with unsaved changes is left, by any navigation. */

import { useEffect } from "react";
import { useText } from "../text/text.tsx";

/** Null if there are no unsaved changes. One page is shown at a time. */
let question: string | null = null;

export function useUnsaved(isChanged: boolean): void {
  const { leave } = useText("kit");
  useEffect(() => {
    if (!isChanged) return;
    question = leave;
    const onUnload = (event: BeforeUnloadEvent) => event.preventDefault();
    // Back and forward. Browsers without `navigation` cannot intercept them.
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

/** Shows a confirmation if there are unsaved changes. */
function mayLeave(): boolean {
  return question === null || confirm(question);
}

/** For a link or a button that leads to another page. A change of the page's own parameters needs no confirmation. */
export function mayGo(to: string): boolean {
  return new URL(to, location.href).pathname === location.pathname || mayLeave();
}
