/** The JSON view of a body: the text editor, and the problems of the text as a list. Loaded on demand for its size. */

import { useEffect, useEffectEvent, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useText } from "../../text/text.tsx";
import type { JsonSchema } from "../json-schema.ts";
import { ProblemList, useProblemText } from "../problem-list.tsx";
import { BodyTextEditor, type EditorLabels } from "./body-text-editor.ts";
import { locateProblems } from "./locate-problems.ts";

export interface JsonEditorProps {
  schema: JsonSchema;
  text: string;
  models: readonly string[];
  onChange(text: string): void;
}

/** Problems are shown when typing pauses: half a word is not a mistake. */
const CHECK_AFTER_MS = 300;

export default function JsonEditor({ schema, text, models, onChange }: JsonEditorProps) {
  const t = useText("explorer");
  const id = useId();
  const describe = useProblemText();
  const checked = usePause(text, CHECK_AFTER_MS);
  const problems = useMemo(
    () =>
      locateProblems(checked, schema).map(({ problem, ...place }) => ({
        ...place,
        message: describe(problem),
      })),
    [checked, schema, describe],
  );
  const isInvalid = problems.length > 0;
  const labels = useMemo<EditorLabels>(
    () => ({
      attributes: {
        "aria-label": t.body,
        "aria-describedby": `${id}-problems ${id}-hint`,
        "aria-invalid": String(isInvalid),
      },
      suggestionsLabel: t.fieldsHere,
    }),
    [t, id, isInvalid],
  );
  const { host, editor } = useEditor({ text, labels, completion: { schema, models }, onChange });

  useEffect(() => editor.current?.setLabels(labels), [editor, labels]);
  useEffect(() => {
    // The text may have changed since. Its own check follows.
    if (editor.current?.text === checked) editor.current.showProblems(problems);
  }, [editor, checked, problems]);

  return (
    <div className="json-editor">
      <div ref={host} />
      <p className="soft small" id={`${id}-hint`}>
        {t.editorHint}
      </p>
      <ProblemList
        id={`${id}-problems`}
        problems={problems}
        onSelect={(problem) => editor.current?.select(problem)}
      />
    </div>
  );
}

type UseEditorOptions = Omit<ConstructorParameters<typeof BodyTextEditor>[0], "parent">;

/** One editor for the life of the component; its text and its completion follow the properties. */
function useEditor(options: UseEditorOptions) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<BodyTextEditor>(null);
  const report = useEffectEvent((text: string) => options.onChange(text));
  const create = useEffectEvent(
    (parent: HTMLElement) => new BodyTextEditor({ ...options, parent, onChange: (text) => report(text) }),
  );
  useLayoutEffect(() => {
    if (host.current === null) return;
    const created = create(host.current);
    editor.current = created;
    return () => created.destroy();
  }, []);
  // Before the next key press: a later effect could put back an older text.
  useLayoutEffect(() => {
    editor.current?.setText(options.text);
    editor.current?.setCompletion(options.completion);
  });
  return { host, editor };
}

/** The value as it was when it last stayed unchanged for a while. */
function usePause<Value>(value: Value, pauseMs: number): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value, pauseMs]);
  return settled;
}
