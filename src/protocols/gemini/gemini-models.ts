/** Reads the abilities of a Gemini model from its name. */

import type { AccountProfile } from "../hub/account-profile.ts";

/** `gemini-2.5-pro` → 2.5; null for aliases and other names, which are taken for the latest models. */
function readVersion(model: string): number | null {
  const version = /(?:^|\/)gemini-(\d+(?:\.\d+)?)/.exec(model)?.[1];
  return version === undefined ? null : Number(version);
}

export function isBefore(model: string, version: number): boolean {
  const own = readVersion(model);
  return own !== null && own < version;
}

export function isPro(model: string): boolean {
  return /-pro\b/.test(model);
}

type ThinkingStyle = "budget" | "level" | "none";

/** Gemini 2.5 takes a budget, later models a level; earlier models, and Gemma, do not think. */
export function thinkingStyle(model: string, { thinking }: AccountProfile): ThinkingStyle {
  if (thinking === "none" || isBefore(model, 2.5) || /(?:^|\/)gemma-/.test(model)) return "none";
  return thinking === "budget" || isBefore(model, 3) ? "budget" : "level";
}
