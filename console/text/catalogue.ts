/**
 * All words of the console, by area. English is the shape that every other language has to fill; each language is a
 * chunk of its own, so that nobody loads two.
 */

import type { en } from "./en.ts";

export type Catalogue = typeof en;
/** What another language has to say about one area. */
export type Area<Name extends keyof Catalogue> = Catalogue[Name];

/** Each by its own name. */
export const LANGUAGES = { en: "English", zh: "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

export async function loadCatalogue(language: Language): Promise<Catalogue> {
  switch (language) {
    case "en":
      return (await import("./en.ts")).en;
    case "zh":
      return (await import("./zh.ts")).zh;
  }
}

const KEPT_AS = "language";

/** The one chosen here before, or the first of the browser's that there is. */
export function preferredLanguage(): Language {
  const wanted = [localStorage.getItem(KEPT_AS) ?? "", ...navigator.languages];
  const found = wanted.map((tag) => tag.split("-")[0] ?? "").find(isLanguage);
  return found ?? "en";
}

export function keepLanguage(language: Language): void {
  localStorage.setItem(KEPT_AS, language);
}

function isLanguage(tag: string): tag is Language {
  return Object.hasOwn(LANGUAGES, tag);
}
