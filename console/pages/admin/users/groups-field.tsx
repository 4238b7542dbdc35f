/** Groups that are for members only: the others need no membership. */

import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { type FieldBinding, MultiSelect } from "../../../ui/field.tsx";

export function GroupsField(bound: FieldBinding<readonly string[]>) {
  const t = useText("adminUsers");
  const kit = useText("kit");
  const groups = useList("admin.groups.list", { query: { limit: 200 } });
  const names = groups.rows.filter(({ access }) => access === "members").map(({ name }) => name);
  const choices = [...new Set([...names, ...bound.value])].map((name) => ({ value: name, label: name }));
  return (
    <MultiSelect
      {...bound}
      label={t.groups}
      hint={t.groupsHint}
      optional
      choices={choices}
      empty={groups.isLoading ? kit.loading : t.noGroups}
    />
  );
}
