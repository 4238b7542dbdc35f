/** The languages of the console. Each is a separate chunk, so that a browser loads only one. */

import type { Catalogue, LoadedTexts } from "./catalogue.ts";

/** Each language by its own name. */
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

/** The areas that the API explorer uses. */
export async function loadExplorerTexts(language: Language): Promise<LoadedTexts> {
  switch (language) {
    case "en":
      return (await import("./en-explorer.ts")).enExplorer;
    case "zh":
      return (await import("./zh-explorer.ts")).zhExplorer;
  }
}

const STORAGE_KEY = "language";

/** The language chosen in this browser before, or the first of the browser's languages that the console has. */
export function preferredLanguage(): Language {
  const wanted = [localStorage.getItem(STORAGE_KEY) ?? "", ...navigator.languages];
  const found = wanted.map((tag) => tag.split("-")[0] ?? "").find(isLanguage);
  return found ?? "en";
}

export function keepLanguage(language: Language): void {
  localStorage.setItem(STORAGE_KEY, language);
}

function isLanguage(tag: string): tag is Language {
  return Object.hasOwn(LANGUAGES, tag);
}
