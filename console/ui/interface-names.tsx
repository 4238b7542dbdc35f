/** Interfaces by their names. Those that requests are translated for are listed apart. */

import { useText } from "../text/text.tsx";

type Interface = "chat" | "responses" | "messages" | "gemini" | "embeddings" | "images";

interface InterfaceNamesProps {
  native: readonly Interface[];
  translated: readonly Interface[];
  /** Only the number of translated interfaces, with their names in the title: for narrow columns. */
  isShort?: boolean;
}

export function InterfaceNames({ native, translated, isShort = false }: InterfaceNamesProps) {
  const { interfaces } = useText("models");
  const t = useText("kit");
  const names = (list: readonly Interface[]) => list.map((name) => interfaces[name]).join(", ");
  const all = t.translated(names(translated));
  return (
    <span className="interface-names small soft">
      {native.length > 0 && <span>{names(native)}</span>}
      {translated.length > 0 && (
        <span title={isShort ? `${all}. ${t.translatedHelp}` : t.translatedHelp}>
          {isShort ? t.translatedCount(translated.length) : all}
        </span>
      )}
    </span>
  );
}
