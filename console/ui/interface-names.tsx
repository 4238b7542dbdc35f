/** Interfaces by their names. Those that requests are translated for are listed apart. */

import { useText } from "../text/text.tsx";
import { classes } from "./class.ts";

type Interface = "chat" | "responses" | "messages" | "gemini" | "embeddings" | "images";

interface InterfaceNamesProps {
  native: readonly Interface[];
  translated: readonly Interface[];
  /** Numbers of interfaces, with their names in the title: for narrow columns. */
  isShort?: boolean;
}

export function InterfaceNames({ native, translated, isShort = false }: InterfaceNamesProps) {
  const { interfaces } = useText("models");
  const t = useText("kit");
  const names = (list: readonly Interface[]) => list.map((name) => interfaces[name]).join(", ");
  const all = t.translated(names(translated));
  return (
    <span className={classes("interface-names small soft", isShort && "nowrap")}>
      {native.length > 0 && (
        <span title={names(native)}>
          {isShort && native.length > 1 ? t.nativeCount(native.length) : names(native)}
        </span>
      )}
      {translated.length > 0 && (
        <span title={isShort ? `${all}. ${t.translatedHelp}` : t.translatedHelp}>
          {isShort ? t.translatedCount(translated.length) : all}
        </span>
      )}
    </span>
  );
}
