/** The texts and the number formats of the selected language, for every component. */

import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import type { Catalogue } from "./catalogue.ts";
import { type Format, openFormat } from "./format.ts";
import { keepLanguage, type Language, loadCatalogue } from "./language.ts";

interface Speech {
  language: Language;
  texts: Catalogue;
  format: Format;
  speak(language: Language): void;
}

const SpeechContext = createContext<Speech | null>(null);

export function TextProvider(props: { language: Language; texts: Catalogue; children: ReactNode }) {
  const [spoken, setSpoken] = useState({ language: props.language, texts: props.texts });
  useEffect(() => {
    document.documentElement.lang = spoken.language;
  }, [spoken.language]);
  const speech = useMemo<Speech>(
    () => ({
      ...spoken,
      format: openFormat(spoken.language),
      speak(language) {
        void loadCatalogue(language).then((texts) => {
          keepLanguage(language);
          setSpoken({ language, texts });
        });
      },
    }),
    [spoken],
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
  return useSpeech().texts[area];
}

export function useFormat(): Format {
  return useSpeech().format;
}
