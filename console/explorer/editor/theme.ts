/** The look of the editor, from the tokens of the console, which follow the light or dark theme by themselves. */

import { syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tagHighlighter, tags } from "@lezer/highlight";
import { type TokenKind, tokenClass } from "../../ui/highlight.ts";

const tokenKinds: readonly (readonly [(typeof tags)["string"], TokenKind])[] = [
  [tags.propertyName, "name"],
  [tags.string, "string"],
  [tags.number, "number"],
  [tags.bool, "keyword"],
  [tags.null, "keyword"],
];

const highlighter = tagHighlighter(tokenKinds.map(([tag, kind]) => ({ tag, class: tokenClass(kind) ?? "" })));

const underline = (colour: string) => ({
  backgroundImage: "none",
  textDecoration: `underline wavy ${colour}`,
  textDecorationSkipInk: "none",
  textUnderlineOffset: "3px",
});

const theme = EditorView.theme({
  "&": {
    color: "var(--ink)",
    backgroundColor: "var(--surface)",
    border: "1px solid var(--line-strong)",
    borderRadius: "var(--radius-small)",
    fontSize: "13px",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": {
    maxHeight: "520px",
    overflow: "auto",
    fontFamily: "var(--mono)",
    fontVariantLigatures: "none",
    lineHeight: "1.6",
  },
  ".cm-content, .cm-gutter": { minHeight: "180px" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": {
    color: "var(--ink-soft)",
    backgroundColor: "var(--sunken)",
    borderRight: "1px solid var(--line)",
    borderRadius: "var(--radius-small) 0 0 var(--radius-small)",
  },
  ".cm-gutter-lint": { width: "18px" },
  ".cm-lint-marker": { width: "10px", height: "10px", borderRadius: "50%", cursor: "default" },
  ".cm-lint-marker-error": { content: "none", backgroundColor: "var(--bad)" },
  ".cm-lintRange-error": underline("var(--bad)"),
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--bad)" },
  "&.cm-focused .cm-matchingBracket": {
    backgroundColor: "var(--accent-soft)",
    outline: "1px solid var(--accent)",
  },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--bad-soft)" },
  ".cm-tooltip": {
    color: "var(--ink)",
    backgroundColor: "var(--surface)",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius-small)",
    boxShadow: "var(--shadow)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "260px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    color: "var(--accent-strong)",
    backgroundColor: "var(--accent-soft)",
  },
  ".cm-completionInfo": { padding: "6px 10px", fontFamily: "var(--font)" },
  // On a phone the tooltip would cover the suggestions; the schema beside the editor has the same text.
  "@media (max-width: 860px)": { ".cm-tooltip.cm-completionInfo": { display: "none" } },
  ".cm-tooltip-lint": { maxWidth: "min(90vw, 460px)" },
  ".cm-diagnostic": { padding: "6px 10px", fontFamily: "var(--font)" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
});

export const editorLook = [theme, syntaxHighlighting(highlighter)];
