/** Code with syntax highlighting, inside a `pre` or beside text. */

import { useMemo } from "react";
import { highlight, tokenClass } from "./highlight.ts";

export function Code({ code, language }: { code: string; language: string }) {
  const tokens = useMemo(() => highlight(code, language), [code, language]);
  return (
    <code>
      {tokens.map(({ kind, text }, i) =>
        kind === "plain" ? (
          text
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: a token is identified by its position.
          <span key={i} className={tokenClass(kind)}>
            {text}
          </span>
        ),
      )}
    </code>
  );
}
