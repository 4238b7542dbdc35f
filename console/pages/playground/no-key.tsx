/** The playground needs a key: one button creates it. */

import { useState } from "react";
import { useApi, useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Button } from "../../ui/button.tsx";
import { SelectField } from "../../ui/field.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { useProblemToast } from "../../ui/toast.tsx";
import { callableFirst } from "../keys/paid.ts";

/** `wanted` is the name of a group, from the address. */
export function NoKey({ wanted }: { wanted: string | null }) {
  const t = useText("playground").noKey;
  const offers = useApi("groups.list");
  const wallet = useApi("wallet.get");
  const create = useChange("keys.create", { invalidates: ["keys.", "models."] });
  const showProblem = useProblemToast();
  const [chosen, setGroup] = useState(wanted);
  if (offers.data === undefined) return <Awaited query={offers} height={240} />;
  if (wallet.data === undefined) return <Awaited query={wallet} height={240} />;
  const groups = callableFirst(offers.data.data, wallet.data).filter(({ models }) => models.length > 0);
  const group = (groups.find(({ name }) => name === chosen) ?? groups[0])?.name;
  if (group === undefined) {
    return (
      <EmptyState icon="group" title={t.noGroup}>
        <p>{t.noGroupText}</p>
      </EmptyState>
    );
  }
  return (
    <EmptyState
      icon="key"
      title={t.title}
      actions={
        <Button
          tone="primary"
          icon="key"
          isBusy={create.isPending}
          onClick={() => create.mutate({ body: { name: t.keyName, group } }, { onError: showProblem })}
        >
          {t.create}
        </Button>
      }
    >
      <p>{t.text}</p>
      {groups.length > 1 && (
        <SelectField
          name="group"
          label={t.group}
          value={group}
          choices={groups.map(({ name }) => ({ value: name, label: name }))}
          onChange={setGroup}
        />
      )}
    </EmptyState>
  );
}
