/** "What would happen to this request?": applies the rules of a form to a pasted or captured body. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { SelectField, TextAreaField } from "../../../ui/field.tsx";
import { Notice, ProblemNotice } from "../../../ui/notice.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { CodeBlock } from "../../../ui/values.tsx";
import { CapturedRequests } from "./captured-requests.tsx";
import { PolicyChanges } from "./policy-changes.tsx";
import type { PolicyDocument } from "./policy-values.ts";

type Result = ResponseBody<"admin.request_policies.preview">;

const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
type Dialect = (typeof DIALECTS)[number];

const EXAMPLES: Readonly<Record<Dialect, string>> = {
  responses:
    '{"model":"fast-chat","input":"Hello","max_output_tokens":64000,"reasoning":{"effort":"xhigh"},"tools":[{"type":"web_search"}]}',
  chat: '{"model":"fast-chat","messages":[{"role":"user","content":"Hello"}],"max_tokens":64000,"web_search_options":{}}',
  messages:
    '{"model":"claude","max_tokens":64000,"messages":[{"role":"user","content":"Hello"}],"thinking":{"type":"enabled","budget_tokens":32000}}',
  gemini: '{"contents":[{"parts":[{"text":"Hello"}]}],"tools":[{"googleSearch":{}}]}',
};

export function PolicyTrial({ document }: { document: PolicyDocument }) {
  const t = useText("adminPolicies").trial;
  const names = useText("policy").interfaces;
  const [dialect, setDialect] = useState<Dialect>("responses");
  const [request, setRequest] = useState(EXAMPLES.responses);
  const trial = useChange("admin.request_policies.preview", { invalidates: [] });
  const run = () =>
    // A policy that has no name yet can be tried as well.
    trial.mutate({
      body: { document: { ...document, name: document.name || "new" }, interface: dialect, request },
    });
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <CapturedRequests
          onLoad={(loaded) => {
            setDialect(loaded.dialect);
            setRequest(loaded.request);
          }}
        />
        <SelectField
          name="interface"
          value={dialect}
          onChange={(chosen) => {
            setDialect(chosen);
            setRequest(EXAMPLES[chosen]);
          }}
          label={t.interface}
          choices={DIALECTS.map((name) => ({ value: name, label: names[name] }))}
        />
        <TextAreaField
          name="request"
          value={request}
          onChange={setRequest}
          label={t.request}
          rows={6}
          isCode
        />
        <div>
          <Button onClick={run} isBusy={trial.isPending}>
            {t.run}
          </Button>
        </div>
        {trial.error !== null && <ProblemNotice error={trial.error} />}
        {trial.data !== undefined && <TrialResult result={trial.data} />}
      </Card>
    </Section>
  );
}

function TrialResult({ result }: { result: Result }) {
  const t = useText("adminPolicies").trial;
  const format = useFormat();
  if (result.problems.length > 0)
    return (
      <Notice tone="bad">
        {result.problems.map(({ field, message }) => (
          <p key={`${field} ${message}`}>
            <code>{field}</code> {message}
          </p>
        ))}
      </Notice>
    );
  if (result.error !== null)
    return (
      <Notice tone="bad" title={t.rejected}>
        <p>{result.error.message}</p>
        <p className="small">
          {result.error.status} <code>{result.error.code}</code>
        </p>
      </Notice>
    );
  return (
    <>
      <Notice tone={result.changes.length === 0 ? "good" : "warn"}>
        <p>{result.changes.length === 0 ? t.unchanged : t.changed}</p>
        {result.output_cap !== null && <p>{t.cap(format.number(result.output_cap))}</p>}
      </Notice>
      {result.changes.length > 0 && <PolicyChanges changes={result.changes} />}
      {result.header !== null && (
        <CodeBlock code={`x-gateway-policy: ${result.header}`} label={t.header} wrap />
      )}
      {result.request !== null && <CodeBlock code={result.request} label={t.sent} language="json" wrap />}
    </>
  );
}
