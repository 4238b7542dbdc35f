/** The body as a form: the fields that are set, and a menu to add the others. */

import { type ReactNode, useState } from "react";
import { useText } from "../text/text.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { NumberField, SelectField, TextAreaField, TextField } from "../ui/field.tsx";
import { type JsonSchema, listChoices, listValues } from "./json-schema.ts";
import { isObject } from "./json-value.ts";
import { Marked } from "./marked.tsx";

interface BodyFormProps {
  schema: JsonSchema;
  value: Readonly<Record<string, unknown>>;
  models: readonly string[];
  onChange(value: Record<string, unknown>): void;
}

export function BodyForm({ schema, value, models, onChange }: BodyFormProps) {
  const t = useText("explorer");
  const properties = Object.entries(schema.properties ?? {});
  const required = new Set(schema.required ?? []);
  const isShown = (name: string) => required.has(name) || Object.hasOwn(value, name);
  const unknown = Object.keys(value).filter((name) => schema.properties?.[name] === undefined);
  const hidden = properties.filter(([name]) => !isShown(name)).map(([name]) => name);
  const set = (name: string, next: unknown) => {
    const { [name]: _, ...rest } = value;
    onChange(next === undefined ? rest : { ...value, [name]: next });
  };
  return (
    <div className="stack wide">
      {[
        ...properties.filter(([name]) => isShown(name)),
        ...unknown.map((name): [string, JsonSchema] => [name, {}]),
      ].map(([name, field]) => (
        <BodyField
          key={name}
          name={name}
          schema={field}
          value={value[name]}
          models={models}
          isRequired={required.has(name)}
          onChange={(next) => set(name, next)}
        />
      ))}
      {hidden.length > 0 && (
        <SelectField
          name="add-field"
          label={t.addField}
          value=""
          choices={[{ value: "", label: "…" }, ...hidden.map((name) => ({ value: name, label: name }))]}
          onChange={(name) => name !== "" && set(name, buildEmptyValue(schema.properties?.[name] ?? {}))}
        />
      )}
    </div>
  );
}

/** A sample of the right type, to be edited. */
function buildEmptyValue(schema: JsonSchema): unknown {
  const [choice = {}] = listChoices(schema);
  switch (choice.type) {
    case "boolean":
      return true;
    case "number":
    case "integer":
      return 1;
    case "array":
      return [];
    case "object":
      return {};
    default:
      return listValues(schema)[0] ?? "";
  }
}

interface BodyFieldProps {
  name: string;
  schema: JsonSchema;
  value: unknown;
  models: readonly string[];
  isRequired: boolean;
  onChange(value: unknown): void;
}

function BodyField({ name, schema, value, models, isRequired, onChange }: BodyFieldProps) {
  const t = useText("explorer");
  const around = {
    name,
    label: name,
    hint: schema.description && <Marked text={schema.description} />,
    optional: !isRequired,
  };
  const values = listValues(schema);
  const text = typeof value === "string" ? value : "";
  const notSet = { value: "", label: t.notSet };
  if (name === "model" && models.length > 0) {
    const known = models.includes(text) ? models : [text, ...models];
    return (
      <SelectField
        {...around}
        value={text}
        choices={known.map((id) => ({ value: id, label: id }))}
        onChange={onChange}
      />
    );
  }
  if (listChoices(schema).some(({ type }) => type === "boolean")) {
    return (
      <SelectField
        {...around}
        value={typeof value === "boolean" ? String(value) : ""}
        choices={[notSet, { value: "true", label: "true" }, { value: "false", label: "false" }]}
        onChange={(chosen) => onChange(chosen === "" ? undefined : chosen === "true")}
      />
    );
  }
  if (values.length > 0) {
    return (
      <SelectField
        {...around}
        value={text}
        choices={[notSet, ...values.map((one) => ({ value: one, label: one }))]}
        onChange={(chosen) => onChange(chosen === "" ? undefined : chosen)}
      />
    );
  }
  if (listChoices(schema).some(({ type }) => type === "number" || type === "integer")) {
    return (
      <NumberField
        {...around}
        value={typeof value === "number" ? value : null}
        onChange={(number) => onChange(number ?? undefined)}
      />
    );
  }
  if (name === "messages" && isPlainMessages(value)) {
    return <Messages messages={value} onChange={onChange} />;
  }
  if (typeof value === "string" || (value === undefined && isText(schema))) {
    return name === "input" || name === "prompt" || name === "instructions" ? (
      <TextAreaField {...around} rows={3} value={text} onChange={onChange} />
    ) : (
      <TextField {...around} value={text} onChange={onChange} />
    );
  }
  return <JsonField {...around} label={t.asJson(name)} value={value} onChange={onChange} />;
}

function isText(schema: JsonSchema): boolean {
  return listChoices(schema).some(({ type }) => type === "string");
}

interface JsonFieldProps {
  name: string;
  label: string;
  hint: ReactNode;
  optional: boolean;
  value: unknown;
  onChange(value: unknown): void;
}

/** A value without a field is edited as JSON. Only valid JSON is applied. */
function JsonField({ value, onChange, optional, ...props }: JsonFieldProps) {
  const t = useText("explorer");
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <TextAreaField
      {...props}
      {...(optional ? { optional } : {})}
      isCode
      rows={Math.min(14, text.split("\n").length + 1)}
      value={text}
      problem={problem}
      onChange={(next) => {
        setText(next);
        try {
          onChange(next.trim() === "" ? undefined : JSON.parse(next));
          setProblem(null);
        } catch (error) {
          setProblem(t.notJson(error instanceof Error ? error.message : String(error)));
        }
      }}
    />
  );
}

interface PlainMessage {
  role: string;
  content: string;
}

function isPlainMessages(value: unknown): value is PlainMessage[] {
  return (
    Array.isArray(value) &&
    value.every(
      (one) =>
        isObject(one) &&
        typeof one.role === "string" &&
        typeof one.content === "string" &&
        Object.keys(one).length === 2,
    )
  );
}

const ROLES = ["system", "developer", "user", "assistant"];

function Messages({
  messages,
  onChange,
}: {
  messages: PlainMessage[];
  onChange: (value: PlainMessage[]) => void;
}) {
  const t = useText("explorer");
  const put = (at: number, change: Partial<PlainMessage>) =>
    onChange(messages.map((message, i) => (i === at ? { ...message, ...change } : message)));
  return (
    <fieldset className="stack" aria-label="messages">
      <legend className="field-legend">messages</legend>
      {messages.map((message, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a message is identified by its position.
        <div className="explorer-message" key={i}>
          <SelectField
            name={`role-${i}`}
            label={`${t.message(i + 1)}: ${t.role}`}
            value={message.role}
            choices={[...new Set([...ROLES, message.role])].map((role) => ({ value: role, label: role }))}
            onChange={(role) => put(i, { role })}
          />
          <TextAreaField
            name={`content-${i}`}
            label={`${t.message(i + 1)}: ${t.content}`}
            rows={2}
            value={message.content}
            onChange={(content) => put(i, { content })}
          />
          {messages.length > 1 && (
            <IconButton
              icon="trash"
              label={t.removeMessage(i + 1)}
              onClick={() => onChange(messages.filter((_, at) => at !== i))}
            />
          )}
        </div>
      ))}
      <div>
        <Button small icon="add" onClick={() => onChange([...messages, { role: "user", content: "" }])}>
          {t.addMessage}
        </Button>
      </div>
    </fieldset>
  );
}
