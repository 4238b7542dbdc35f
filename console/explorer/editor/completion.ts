/** Completion of member names and values from the schema of the endpoint, for CodeMirror. */

import {
  type CompletionContext,
  type CompletionResult,
  type Completion as Option,
  pickedCompletion,
  startCompletion,
} from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import type { JsonSchema } from "../json-schema.ts";
import { type Completion, complete, formatInsertion, type Suggestion } from "../suggest.ts";

export interface CompletionOptions {
  readonly schema: JsonSchema;
  readonly models: readonly string[];
}

export function completeBody(
  { state, pos, explicit }: CompletionContext,
  { schema, models }: CompletionOptions,
): CompletionResult | null {
  const text = state.doc.toString();
  const completion = complete(text, pos, schema, models);
  if (completion === null) return null;
  const { from, to, typed } = completion.place;
  // The list opens in a string or with a first letter. In an empty place, Enter means a new line.
  if (!explicit && typed === "" && text[from] !== '"') return null;
  return {
    from,
    to,
    // The suggestions match what is typed already. The editor would compare them with the quote as well.
    filter: false,
    options: completion.suggestions.map((suggestion) => toOption(suggestion, completion, schema)),
  };
}

function toOption(suggestion: Suggestion, completion: Completion, schema: JsonSchema): Option {
  return {
    label: suggestion.label,
    ...(suggestion.about === "" ? {} : { info: suggestion.about.replaceAll("`", "") }),
    apply(view: EditorView, option: Option, from: number, to: number) {
      const insert = formatInsertion(view.state.doc.toString(), completion, suggestion, schema);
      view.dispatch({
        changes: { from, to, insert },
        selection: { anchor: from + insert.length },
        userEvent: "input.complete",
        annotations: pickedCompletion.of(option),
      });
      if (completion.place.at === "name") startCompletion(view);
    },
  };
}
