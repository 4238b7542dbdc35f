/** The result, and a real call of one model: a button that names the model and the most that the call may cost. */

import { useState } from "react";
import { api } from "../../../api.ts";
import { useInvalidate } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, LinkButton } from "../../../ui/button.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { useProblemToast } from "../../../ui/toast.tsx";
import { NEW_REPLY, type Reply } from "../../playground/conversation.ts";
import { streamReply } from "../../playground/stream-reply.ts";
import { TemporarySecrets } from "../../playground/temporary-secrets.ts";
import { buildTestRequest, type CallableModel, chooseTestModel, computeCostMax } from "./test-request.ts";

export interface Published {
  readonly account: string;
  readonly group: string;
  readonly models: readonly CallableModel[];
}

export function PublishedNotice({ published }: { published: Published }) {
  const t = useText("adminSetup").published;
  const { account, group, models } = published;
  const model = chooseTestModel(models);
  return (
    <div className="stack">
      <Notice tone="good">{t.done(account, models.length, group)}</Notice>
      <div className="row">
        <LinkButton tone="primary" to={`/playground?group=${encodeURIComponent(group)}`} icon="spark">
          {t.playground}
        </LinkButton>
        <LinkButton to={`/connect?group=${encodeURIComponent(group)}`} icon="link">
          {t.connect}
        </LinkButton>
      </div>
      {model !== null && <TestRequest group={group} model={model} />}
    </div>
  );
}

function TestRequest({ group, model }: { group: string; model: CallableModel }) {
  const t = useText("adminSetup").published;
  const format = useFormat();
  const [isBusy, setBusy] = useState(false);
  const [reply, setReply] = useState<Reply | null>(null);
  const showProblem = useProblemToast();
  const invalidate = useInvalidate();
  const send = () => {
    setBusy(true);
    void sendTestRequest(group, model.id, t.keyName)
      .then(setReply, showProblem)
      // The checklist of this page.
      .then(() => invalidate(["admin.setup.get"]))
      .finally(() => setBusy(false));
  };
  const costMax = computeCostMax(model);
  return (
    <div className="stack">
      <div className="setup-test">
        <Button isBusy={isBusy} onClick={send}>
          {costMax === null ? t.callUnpriced(model.id) : t.call(model.id, format.money(costMax))}
        </Button>
      </div>
      {reply !== null && (
        <Notice tone={reply.state === "done" ? "good" : "bad"}>
          {reply.text || reply.problem || t.failed}
        </Notice>
      )}
    </div>
  );
}

const TIMEOUT_MS = 60_000;

/** Like any client: by the public API, with a key of the administrator in the new group. */
async function sendTestRequest(group: string, modelId: string, keyName: string): Promise<Reply> {
  const { data: keys } = await api("keys.list", { query: { limit: 100 } });
  const own = keys.find((key) => key.group === group && key.status === "active");
  const key = own ?? (await api("keys.create", { body: { name: keyName, group } })).key;
  const { data: models } = await api("models.list", { query: { key: key.id, search: modelId } });
  const model = models.find(({ id }) => id === modelId);
  if (model === undefined) return { ...NEW_REPLY, state: "failed" };
  const secret = await new TemporarySecrets().get(key.id);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return streamReply({ ...buildTestRequest(model), secret, signal }, () => {});
}
