/** Two views of one body: a form, and JSON with completion and checks. The text is authoritative. */

import { lazy, Suspense, useState } from "react";
import { useText } from "../text/text.tsx";
import { Button } from "../ui/button.tsx";
import { Code } from "../ui/code.tsx";
import { Segments } from "../ui/field.tsx";
import { Notice } from "../ui/notice.tsx";
import { Section } from "../ui/page.tsx";
import { BodyForm } from "./body-form.tsx";
import { findBodyProblems } from "./body-problem.ts";
import type { BodyExample, ExplorerOperation } from "./described.ts";
import { isObject, parsed } from "./json-value.ts";
import { ProblemList, useProblemText } from "./problem-list.tsx";

/** A separate chunk: the page can be read while the editor loads. */
const JsonEditor = lazy(() => import("./editor/json-editor.tsx"));

interface BodyEditorProps {
  operation: ExplorerOperation;
  text: string;
  models: readonly string[];
  examples: readonly BodyExample[];
  onChange(text: string): void;
  onExample(name: string): void;
}

type View = "json" | "form";

export function BodyEditor({ operation, text, models, examples, onChange, onExample }: BodyEditorProps) {
  const t = useText("explorer");
  const [view, setView] = useState<View>("json");
  if (operation.body === null && !operation.isSocket) return null;
  const { schema } = operation;
  return (
    <Section
      title={t.body}
      actions={
        <Segments<View>
          label={t.view}
          value={view}
          choices={[
            { value: "json", label: t.views.json },
            { value: "form", label: t.views.form },
          ]}
          onChange={setView}
        />
      }
    >
      {examples.length > 1 && (
        <fieldset className="row" aria-label={t.examples}>
          {examples.map(({ name }) => (
            <Button key={name} small onClick={() => onExample(name)}>
              {name}
            </Button>
          ))}
        </fieldset>
      )}
      {view === "json" ? (
        <Suspense fallback={<TextPreview text={text} />}>
          <JsonEditor schema={schema} text={text} models={models} onChange={onChange} />
        </Suspense>
      ) : (
        <FormView operation={operation} text={text} models={models} onChange={onChange} />
      )}
    </Section>
  );
}

/** Stands where the editor will be, so that nothing moves when it is loaded. */
function TextPreview({ text }: { text: string }) {
  return (
    <pre className="json-preview" aria-hidden="true">
      <Code code={text} language="json" />
    </pre>
  );
}

type FormViewProps = Pick<BodyEditorProps, "operation" | "text" | "models" | "onChange">;

function FormView({ operation: { schema }, text, models, onChange }: FormViewProps) {
  const t = useText("explorer");
  const describe = useProblemText();
  const value = parsed(text);
  const problems = findBodyProblems(text, schema).map((problem) => ({ message: describe(problem) }));
  return (
    <>
      {isObject(value) ? (
        <BodyForm
          schema={schema}
          value={value}
          models={models}
          onChange={(changed) => onChange(JSON.stringify(changed, null, 2))}
        />
      ) : (
        <Notice tone="warn">{t.noForm}</Notice>
      )}
      <ProblemList problems={problems} />
    </>
  );
}
