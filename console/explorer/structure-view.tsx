/** The request, the response and the errors of an operation. */

import { ERROR_GUIDE, errorExample } from "../../src/public-api/error-guide.ts";
import { useText } from "../text/text.tsx";
import { Section } from "../ui/page.tsx";
import { Tabs } from "../ui/tabs.tsx";
import { Badge, CodeBlock } from "../ui/values.tsx";
import type { ExplorerOperation } from "./described.ts";
import { Marked } from "./marked.tsx";
import { bodySchema, type FieldView, listFields } from "./structure.ts";

export function StructureView({ operation }: { operation: ExplorerOperation }) {
  const t = useText("explorer");
  const taken = listFields(operation.schema);
  const tabs = [
    ...(taken.length === 0 ? [] : [{ key: "takes", label: t.takes, content: <FieldList fields={taken} /> }]),
    { key: "answers", label: t.responses, content: <ResponseList operation={operation} /> },
    ...(operation.errors.length === 0
      ? []
      : [{ key: "refusals", label: t.rejections, content: <Rejections operation={operation} /> }]),
  ];
  return (
    <Section title={t.structure}>
      <Tabs key={operation.id} label={t.structure} tabs={tabs} />
    </Section>
  );
}

function FieldList({ fields }: { fields: readonly FieldView[] }) {
  const t = useText("explorer");
  return (
    <ul className="field-list">
      {fields.map((field) => (
        <li key={field.name}>
          <div className="row">
            <code>{field.name}</code>
            <span className="soft small">{field.type}</span>
            {field.isRequired && <Badge tone="plain">{t.required}</Badge>}
          </div>
          {field.about !== "" && (
            <p className="small">
              <Marked text={field.about} />
            </p>
          )}
          {field.values.length > 0 && (
            <p className="small soft">{field.values.map((value) => `“${value}”`).join(", ")}</p>
          )}
          {field.fields.length > 0 && (
            <details>
              <summary>{field.fields.map(({ name }) => name).join(", ")}</summary>
              <FieldList fields={field.fields} />
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}

function ResponseList({ operation }: { operation: ExplorerOperation }) {
  const t = useText("explorer");
  const [example] = operation.response.examples;
  const [stream] = operation.stream?.examples ?? [];
  return (
    <div className="stack">
      <FieldList fields={listFields(bodySchema(operation.response))} />
      {example !== undefined && (
        <CodeBlock label={t.responses} code={JSON.stringify(example.value, null, 2)} language="json" />
      )}
      {stream !== undefined && (
        <>
          <h3>{t.streamed}</h3>
          <CodeBlock label={t.streamed} code={String(stream.value)} language="http" />
        </>
      )}
    </div>
  );
}

function Rejections({ operation }: { operation: ExplorerOperation }) {
  const t = useText("explorer");
  return (
    <ul className="field-list">
      {operation.errors.map((code) => {
        const { why, todo, retry } = ERROR_GUIDE[code];
        return (
          <li key={code}>
            <div className="row">
              <span className="soft small">{errorExample(code).status}</span>
              <code className="breakable">{code}</code>
              <span className="soft small">{t.retries[retry]}</span>
            </div>
            <p className="small">
              <Marked text={why} />
            </p>
            <p className="small">
              {t.todo}: <Marked text={todo} />
            </p>
          </li>
        );
      })}
    </ul>
  );
}
