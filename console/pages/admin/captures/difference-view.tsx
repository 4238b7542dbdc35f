/** What the client sent, compared with what was sent upstream. */

import { useMemo, useState } from "react";
import { useText } from "../../../text/text.tsx";
import { SelectField } from "../../../ui/field.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { type CaptureDocument, prettyJson } from "./capture-request.ts";
import { compareLines, withContext } from "./line-difference.ts";

const SIGNS = { same: " ", removed: "−", added: "+", omitted: "" } as const;

export function DifferenceView({ request, attempts }: Pick<CaptureDocument, "request" | "attempts">) {
  const t = useText("adminCaptures").view;
  const [chosen, setChosen] = useState(String(Math.max(0, attempts.length - 1)));
  const attempt = attempts[Number(chosen)];
  return (
    <div className="stack">
      <p className="soft">{t.differenceAbout}</p>
      {attempts.length > 1 && (
        <SelectField
          name="attempt"
          label={t.chooseAttempt}
          value={chosen}
          onChange={setChosen}
          choices={attempts.map(({ account }, i) => ({ value: String(i), label: t.attempt(i + 1, account) }))}
        />
      )}
      {request.body && attempt?.body ? (
        <Lines before={request.body.text} after={attempt.body.text} />
      ) : (
        <Notice>{t.cannotCompare}</Notice>
      )}
    </div>
  );
}

function Lines({ before, after }: { before: string; after: string }) {
  const t = useText("adminCaptures").view;
  const shown = useMemo(() => {
    // A body is sent as one line. Both bodies are broken into lines, or neither is.
    const [pretty, prettyAfter] = [prettyJson(before), prettyJson(after)];
    const isJson = pretty !== null && prettyAfter !== null;
    return withContext(isJson ? compareLines(pretty, prettyAfter) : compareLines(before, after));
  }, [before, after]);
  if (shown.every(({ kind }) => kind === "same" || kind === "omitted")) return <Notice>{t.same}</Notice>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
    <ol className="capture-difference" aria-label={t.difference} tabIndex={0}>
      {shown.map((line, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a line is identified by its position.
        <li key={i} className={line.kind}>
          <span className="sign" aria-hidden="true">
            {SIGNS[line.kind]}
          </span>
          {(line.kind === "removed" || line.kind === "added") && (
            <span className="unseen">{t[line.kind]}: </span>
          )}
          {line.kind === "omitted" ? t.unchanged(line.count) : line.text}
        </li>
      ))}
    </ol>
  );
}
