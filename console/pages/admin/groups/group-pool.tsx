/** The accounts of a group, in order, each with its current health. */

import { useState } from "react";
import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, Link } from "../../../ui/button.tsx";
import type { FormState } from "../../../ui/form.tsx";
import { AccountState } from "../accounts/account-state.tsx";
import { AddDialog } from "../policy/add-dialog.tsx";
import { Ordered } from "../policy/ordered.tsx";
import type { GroupValues } from "./group-values.ts";

const REFRESH_MS = 5_000;

export function GroupPool({ form }: { form: FormState<GroupValues> }) {
  const t = useText("adminGroups");
  const [isAdding, setAdding] = useState(false);
  const { accounts } = form.values;
  const all = useList("admin.accounts.list", { query: { limit: 200 } }, { refreshMs: REFRESH_MS });
  const known = new Map(all.rows.map((account) => [account.document.name, account]));
  return (
    <>
      {accounts.length === 0 && <p className="soft">{t.pool.none}</p>}
      <Ordered label={t.pool.title} items={accounts} onChange={(next) => form.set("accounts", next)}>
        {(name, index) => {
          const account = known.get(name);
          const problem = form.problemAt(`accounts[${index}]`);
          return (
            <>
              <span className="grow">
                <Link to={`/admin/accounts/${encodeURIComponent(name)}`}>{name}</Link>
              </span>
              {account && (
                <span className="small soft">{t.pool.priority(account.document.priority ?? 1)}</span>
              )}
              {account && <AccountState facts={account.facts} />}
              {problem !== null && <p className="small group-problem">{problem}</p>}
            </>
          );
        }}
      </Ordered>
      <p className="small soft">{t.pool.about}</p>
      <div>
        <Button icon="add" onClick={() => setAdding(true)}>
          {t.pool.add}
        </Button>
      </div>
      {isAdding && (
        <AddDialog
          title={t.pool.add}
          name="accounts"
          label={t.pool.choose}
          listing={all}
          choices={all.rows
            .filter(({ document }) => !accounts.includes(document.name))
            .map(({ document }) => ({ value: document.name, label: document.name, hint: document.kind }))}
          noMore={t.pool.noMore}
          onAdd={(chosen) => form.set("accounts", [...accounts, ...chosen])}
          onClose={() => setAdding(false)}
        />
      )}
    </>
  );
}
