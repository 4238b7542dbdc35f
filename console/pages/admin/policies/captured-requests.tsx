/** Loads the body of a captured request, to be tried with a policy. Opening a capture is recorded in the audit log. */

import { useState } from "react";
import { useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { SelectField } from "../../../ui/field.tsx";
import { ProblemNotice } from "../../../ui/notice.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { prettyJson } from "../captures/capture-request.ts";

/** Endpoints whose requests can be tried. */
const DIALECT_OF_ENDPOINT = {
  responses: "responses",
  "responses.compact": "responses",
  "chat.completions": "chat",
  messages: "messages",
  "gemini.generate_content": "gemini",
  "gemini.stream_generate_content": "gemini",
} as const;
type TriedEndpoint = keyof typeof DIALECT_OF_ENDPOINT;

interface CapturedRequestsProps {
  onLoad(loaded: { dialect: (typeof DIALECT_OF_ENDPOINT)[TriedEndpoint]; request: string }): void;
}

/** Left out if there are no captures. */
export function CapturedRequests({ onLoad }: CapturedRequestsProps) {
  const t = useText("adminPolicies").trial;
  const format = useFormat();
  const showToast = useToast();
  const { rows } = useList("admin.captures.list");
  const read = useChange("admin.captures.read", { invalidates: ["admin.audit."] });
  const captures = rows.filter(({ endpoint }) => endpoint in DIALECT_OF_ENDPOINT);
  const [chosen, setChosen] = useState("");
  const id = chosen || (captures[0]?.request_id ?? "");
  if (id === "") return null;
  const load = () =>
    read.mutate(
      { params: { id }, body: { reason: t.captureReason } },
      {
        onSuccess({ endpoint, document: { request } }) {
          const text =
            request.body && request.body.omitted_bytes === 0 ? prettyJson(request.body.text) : null;
          if (text === null) showToast(t.captureIncomplete, "bad");
          else onLoad({ dialect: DIALECT_OF_ENDPOINT[endpoint as TriedEndpoint], request: text });
        },
      },
    );
  return (
    <>
      <SelectField
        name="capture"
        value={id}
        onChange={setChosen}
        label={t.capture}
        hint={t.captureHint}
        choices={captures.map(({ request_id: value, at, model, key }) => ({
          value,
          label: [format.dateTime(at), model, key.name ?? key.id].join(" · "),
        }))}
      />
      <div>
        <Button onClick={load} isBusy={read.isPending}>
          {t.captureLoad}
        </Button>
      </div>
      {read.error !== null && <ProblemNotice error={read.error} />}
    </>
  );
}
