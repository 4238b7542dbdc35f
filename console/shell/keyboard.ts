/** Keyboard shortcuts of the console: `/` searches, `n` creates, `g` and a letter opens a page, `?` lists them all. */

import { useEffect, useRef } from "react";
import { useLocation } from "wouter";
import { mayOpen, PAGES } from "../pages.tsx";
import { useUser } from "../session.tsx";

/** The letter must follow within this time. */
const SEQUENCE_MS = 1_200;

export function useShortcuts(onHelp: () => void): void {
  const [, go] = useLocation();
  const { role } = useUser();
  const latest = useRef({ go, role, onHelp });
  latest.current = { go, role, onHelp };
  useEffect(() => {
    let goPressedMs = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
      const { go, role, onHelp } = latest.current;
      if (event.timeStamp - goPressedMs < SEQUENCE_MS) {
        goPressedMs = Number.NEGATIVE_INFINITY;
        const page = PAGES.find((one) => one.nav?.key === event.key && mayOpen(one, role));
        if (page) {
          event.preventDefault();
          go(page.path);
        }
        return;
      }
      switch (event.key) {
        case "g":
          goPressedMs = event.timeStamp;
          return;
        case "/":
          return press(event, "search");
        case "n":
          return press(event, "new");
        case "?":
          event.preventDefault();
          return onHelp();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

/** The search of the page has precedence over the search in the top bar. */
function press(event: KeyboardEvent, name: "search" | "new"): void {
  const found =
    document.querySelector<HTMLElement>(`main [data-shortcut=${name}]`) ??
    document.querySelector<HTMLElement>(`[data-shortcut=${name}]`);
  if (!found) return;
  event.preventDefault();
  if (name === "search") found.focus();
  else found.click();
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}
