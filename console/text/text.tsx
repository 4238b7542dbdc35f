/** The texts and the number formats of the selected language, for every component. */

import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import type { Catalogue, LoadedTexts } from "./catalogue.ts";
import { type Format, openFormat } from "./format.ts";
import { keepLanguage, type Language } from "./language.ts";

interface Speech {
  language: Language;
  texts: LoadedTexts;
  format: Format;
  speak(language: Language): void;
}

const SpeechContext = createContext<Speech | null>(null);

interface TextProviderProps {
  language: Language;
  texts: LoadedTexts;
  /** Loads the texts of another language. */
  load(language: Language): Promise<LoadedTexts>;
  children: ReactNode;
}

export function TextProvider({ load, ...props }: TextProviderProps) {
  const [spoken, setSpoken] = useState({ language: props.language, texts: props.texts });
  useEffect(() => {
    document.documentElement.lang = spoken.language;
  }, [spoken.language]);
  const speech = useMemo<Speech>(
    () => ({
      ...spoken,
      format: openFormat(spoken.language),
      speak(language) {
        void load(language).then((texts) => {
          keepLanguage(language);
          setSpoken({ language, texts });
        });
      },
    }),
    [spoken, load],
  );
  return <SpeechContext value={speech}>{props.children}</SpeechContext>;
}

export function useSpeech(): Speech {
  const speech = useContext(SpeechContext);
  if (speech === null) throw new Error("There is no language around this component.");
  return speech;
}

/** The texts of one area: `const t = useText("usage")`, then `t.title`. */
export function useText<Name extends keyof Catalogue>(area: Name): Catalogue[Name] {
  const texts = useSpeech().texts[area];
  if (texts === undefined) throw new Error(`This app has not loaded the texts "${area}".`);
  return texts;
}

/** All texts, which only the console has loaded. */
export function useCatalogue(): Catalogue {
  const { texts } = useSpeech();
  if (!isWhole(texts)) throw new Error("This app has loaded only a part of the texts.");
  return texts;
}

/** Texts are loaded all together, or those of the explorer alone. */
function isWhole(texts: LoadedTexts): texts is Catalogue {
  return texts.entry !== undefined;
}

export function useFormat(): Format {
  return useSpeech().format;
}
