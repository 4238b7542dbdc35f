/** The editor of a body's text: CodeMirror with JSON, completion from a schema, and problems marked in place. */

import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { history, historyKeymap, indentLess, indentMore, standardKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching } from "@codemirror/language";
import { lintGutter, nextDiagnostic, previousDiagnostic, setDiagnostics } from "@codemirror/lint";
import { Annotation, Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { adoptEditorStyles } from "./adopted-styles.ts";
import { type CompletionOptions, completeBody } from "./completion.ts";
import { editorLook } from "./theme.ts";

export interface TextProblem {
  readonly from: number;
  readonly to: number;
  readonly message: string;
}

export interface EditorLabels {
  /** Of the element that is edited: its label, its description and whether it is invalid. */
  readonly attributes: Readonly<Record<string, string>>;
  /** The name of the list of suggestions, for screen readers. */
  readonly suggestionsLabel: string;
}

interface EditorOptions {
  readonly parent: HTMLElement;
  readonly text: string;
  readonly labels: EditorLabels;
  readonly completion: CompletionOptions;
  onChange(text: string): void;
}

/** Marks a change that came from outside, which is not reported back. */
const outside = Annotation.define<boolean>();

adoptEditorStyles();

export class BodyTextEditor {
  readonly #view: EditorView;
  readonly #labels = new Compartment();
  #completion: CompletionOptions;

  constructor({ parent, text, labels, completion, onChange }: EditorOptions) {
    this.#completion = completion;
    const report = EditorView.updateListener.of(({ docChanged, transactions, state }) => {
      const isOwn = transactions.some((transaction) => transaction.annotation(outside) !== true);
      if (docChanged && isOwn) onChange(state.doc.toString());
    });
    this.#view = new EditorView({
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          basics,
          autocompletion({ icons: false, override: [(context) => completeBody(context, this.#completion)] }),
          this.#labels.of(toExtension(labels)),
          report,
        ],
      }),
    });
  }

  get text(): string {
    return this.#view.state.doc.toString();
  }

  setText(text: string): void {
    if (text === this.text) return;
    this.#view.dispatch({
      changes: { from: 0, to: this.#view.state.doc.length, insert: text },
      annotations: outside.of(true),
    });
  }

  setLabels(labels: EditorLabels): void {
    this.#view.dispatch({ effects: this.#labels.reconfigure(toExtension(labels)) });
  }

  setCompletion(completion: CompletionOptions): void {
    this.#completion = completion;
  }

  showProblems(problems: readonly TextProblem[]): void {
    const diagnostics = problems.map(({ from, to, message }) => ({
      from,
      to,
      message,
      severity: "error" as const,
    }));
    this.#view.dispatch(setDiagnostics(this.#view.state, diagnostics));
  }

  /** Selects a part of the text and gives the editor the focus. */
  select({ from, to }: { from: number; to: number }): void {
    this.#view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
    this.#view.focus();
  }

  destroy(): void {
    this.#view.destroy();
  }
}

/** Tab leaves the editor unless the list of suggestions is open, so that keyboard users are never trapped. */
const keys = keymap.of([
  { key: "Tab", run: acceptCompletion },
  { key: "Mod-]", run: indentMore },
  { key: "Mod-[", run: indentLess },
  { key: "F8", run: nextDiagnostic, shift: previousDiagnostic },
  ...closeBracketsKeymap,
  ...historyKeymap,
  ...completionKeymap,
  ...standardKeymap,
]);

const basics: Extension = [
  lineNumbers(),
  lintGutter(),
  history(),
  json(),
  bracketMatching(),
  closeBrackets(),
  keys,
  EditorView.lineWrapping,
  editorLook,
];

function toExtension({ attributes, suggestionsLabel }: EditorLabels): Extension {
  return [
    EditorView.contentAttributes.of({ ...attributes }),
    EditorState.phrases.of({ Completions: suggestionsLabel }),
  ];
}
