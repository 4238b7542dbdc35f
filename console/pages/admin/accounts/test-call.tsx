/** Tests an account with the values of its form, before anything is saved. */

import type { ResponseBody } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { Notice, ProblemNotice, type Tone } from "../../../ui/notice.tsx";
import { type AccountValues, accountDocument, buildCredentialField } from "./account-values.ts";

type Probe = ResponseBody<"admin.accounts.test">;

/** A new account can be tested before it has a name. */
const UNNAMED = "new account";

interface TestCallProps {
  values: AccountValues;
  /** Adds the listed models to the form. */
  onUseModels(models: readonly string[]): void;
}

export function TestCall({ values, onUseModels }: TestCallProps) {
  const t = useText("adminAccounts").test;
  const call = useChange("admin.accounts.test");
  const document = accountDocument(values);
  const ask = () =>
    call.mutate({
      body: {
        document: { ...document, name: document.name === "" ? UNNAMED : document.name },
        ...buildCredentialField(values),
      },
    });
  return (
    <div className="stack">
      <div className="row">
        <Button icon="plug" isBusy={call.isPending} onClick={ask}>
          {t.button}
        </Button>
        <span className="small soft">{t.about}</span>
      </div>
      <div role="status">
        {call.data && !call.isPending && <ProbeResult probe={call.data} onUseModels={onUseModels} />}
        {call.error && !call.isPending && <ProblemNotice error={call.error} />}
      </div>
    </div>
  );
}

function ProbeResult({ probe, onUseModels }: { probe: Probe } & Pick<TestCallProps, "onUseModels">) {
  const t = useText("adminAccounts").test;
  const format = useFormat();
  const { kind, status, failure, models } = probe;
  return (
    <Notice tone={probe.websocket === "unsupported" ? "warn" : chooseTone(kind)}>
      <p>{describeProbe(probe, t, format.duration(probe.duration_ms))}</p>
      {probe.websocket !== null && <p>{t.socket[probe.websocket]}</p>}
      {status !== null && kind !== "answers" && <p className="small soft">{t.status(status)}</p>}
      {failure === null && models.length > 0 && (
        <>
          <details>
            <summary>{t.models(models.length)}</summary>
            <p className="mono small breakable">{models.join(", ")}</p>
          </details>
          <div className="row">
            <Button small icon="add" onClick={() => onUseModels(models)}>
              {t.useModels}
            </Button>
          </div>
        </>
      )}
    </Notice>
  );
}

/** The result of a test in one sentence. */
export function describeProbe(
  probe: Probe,
  t: ReturnType<typeof useText<"adminAccounts">>["test"],
  took: string,
): string {
  if (probe.kind === "answers") return t.good(took);
  if (probe.kind === "unreachable") return t.failures[probe.failure ?? "late"];
  return t.results[probe.kind];
}

function chooseTone(kind: Probe["kind"]): Tone {
  if (kind === "answers" || kind === "simulator") return "good";
  return kind === "list_denied" || kind === "no_list" || kind === "limited" ? "warn" : "bad";
}
