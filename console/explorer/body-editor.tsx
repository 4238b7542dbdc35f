/** One body, two views of it: a form, and the JSON with completion and checks. The text is the truth. */

import { type KeyboardEvent, useId, useLayoutEffect, useRef, useState } from "react";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { socketMessage } from "../../src/public-api/schemas/responses.ts";
import { useText } from "../text/text.tsx";
import { Button } from "../ui/button.tsx";
import { Segments } from "../ui/field.tsx";
import { Notice } from "../ui/notice.tsx";
import { Section } from "../ui/page.tsx";
import { BodyForm } from "./body-form.tsx";
import type { Listed } from "./described.ts";
import { isObject } from "./run.ts";
import { type Completion, complete, insert, type Suggestion } from "./suggest.ts";

interface BodyEditorProps {
  operation: Listed;
  text: string;
  models: readonly string[];
  examples: readonly { name: string; text: string }[];
  onChange(text: string): void;
}

export function BodyEditor({ operation, text, models, examples, onChange }: BodyEditorProps) {
  const t = useText("explorer");
  const [view, setView] = useState<"form" | "json">("json");
  if (operation.body === null && !operation.isSocket) return null;
  const read = readBody(text);
  return (
    <Section
      title={t.body}
      actions={
        <Segments<"form" | "json">
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
          {examples.map((example) => (
            <Button key={example.name} small onClick={() => onChange(example.text)}>
              {example.name}
            </Button>
          ))}
        </fieldset>
      )}
      {view === "json" ? (
        <JsonEditor operation={operation} text={text} models={models} onChange={onChange} />
      ) : read.value === null ? (
        <Notice tone="warn">{t.noForm}</Notice>
      ) : (
        <BodyForm
          schema={operation.schema}
          value={read.value}
          models={models}
          onChange={(value) => onChange(JSON.stringify(value, null, 2))}
        />
      )}
      <Problems operation={operation} read={read} />
    </Section>
  );
}

interface ReadBody {
  value: Record<string, unknown> | null;
  problem: string | null;
}

function readBody(text: string): ReadBody {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { value, problem: null } : { value: null, problem: null };
  } catch (error) {
    return { value: null, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** What the schema has against it. The gateway has the last word. */
function Problems({ operation, read }: { operation: Listed; read: ReadBody }) {
  const t = useText("explorer");
  const lines = read.problem === null ? schemaProblems(operation, read.value) : [t.notJson(read.problem)];
  return (
    <div role="status">
      {lines.length > 0 && (
        <Notice tone="warn">
          <ul>
            {lines.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </Notice>
      )}
    </div>
  );
}

const PROBLEMS_MAX = 5;

function schemaProblems(operation: Listed, value: unknown): string[] {
  const described = Object.values(OPERATIONS).find(({ id }) => id === operation.id);
  const schema = operation.isSocket ? socketMessage : described?.body?.["application/json"]?.schema;
  const result = schema?.safeParse(value);
  if (result === undefined || result.success) return [];
  return result.error.issues
    .slice(0, PROBLEMS_MAX)
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`));
}

interface JsonEditorProps {
  operation: Listed;
  text: string;
  models: readonly string[];
  onChange(text: string): void;
}

function JsonEditor({ operation, text, models, onChange }: JsonEditorProps) {
  const t = useText("explorer");
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const [completion, setCompletion] = useState<Completion | null>(null);
  /** Where the caret goes once the text with the choice in it is there. */
  const wanted = useRef<number | null>(null);

  useLayoutEffect(() => {
    if (wanted.current === null || area.current === null) return;
    area.current.focus();
    area.current.setSelectionRange(wanted.current, wanted.current);
    wanted.current = null;
    offer();
  });

  function offer(): void {
    const element = area.current;
    if (element === null || element.selectionStart !== element.selectionEnd) setCompletion(null);
    else setCompletion(complete(element.value, element.selectionStart, operation.schema, models));
  }

  function take(suggestion: Suggestion): void {
    if (completion === null) return;
    const next = insert(text, completion, suggestion, operation.schema);
    wanted.current = next.caret;
    onChange(next.text);
  }

  function onKeyDown(event: KeyboardEvent<HTMLTextAreaElement>): void {
    const [first] = completion?.suggestions ?? [];
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      offer();
    } else if (event.key === "Escape") setCompletion(null);
    // Tab leaves the field as ever, unless something that was begun can be finished.
    else if (
      event.key === "Tab" &&
      !event.shiftKey &&
      first !== undefined &&
      completion?.place.typed !== ""
    ) {
      event.preventDefault();
      take(first);
    }
  }

  return (
    <div className="json-editor">
      <label className="unseen" htmlFor={id}>
        {t.body}
      </label>
      <textarea
        id={id}
        ref={area}
        className="input code"
        rows={Math.min(24, Math.max(8, text.split("\n").length + 1))}
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="off"
        aria-describedby={`${id}-hint`}
        value={text}
        onChange={(event) => {
          onChange(event.target.value);
          offer();
        }}
        onClick={offer}
        onKeyUp={(event) => {
          if (event.key.startsWith("Arrow")) offer();
        }}
        onKeyDown={onKeyDown}
      />
      {completion !== null && (
        <fieldset className="suggestions" aria-label={t.fieldsHere}>
          {completion.suggestions.map((suggestion) => (
            <button
              key={suggestion.label}
              type="button"
              title={suggestion.about}
              // The field keeps the focus, so that typing goes on.
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => take(suggestion)}
            >
              {suggestion.label}
            </button>
          ))}
        </fieldset>
      )}
      <p className="soft small" id={`${id}-hint`}>
        {t.completeHint}
      </p>
    </div>
  );
}
