/** The group in the address that restricts a list, so that every number of a group can link to its list. */

import { useSearchParams } from "wouter";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";

interface GroupFilter {
  /** Empty if the list is not restricted. */
  readonly group: string;
  /** For the query of the list. */
  readonly query: { readonly group?: string };
  clear(): void;
}

export function useGroupFilter(): GroupFilter {
  const [params, setParams] = useSearchParams();
  const group = params.get("group") ?? "";
  const clear = () =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        next.delete("group");
        return next;
      },
      { replace: true },
    );
  return { group, query: group === "" ? {} : { group }, clear };
}

export function GroupRestriction({ filter: { group, clear } }: { filter: GroupFilter }) {
  const t = useText("policy");
  if (group === "") return null;
  return (
    <p className="row">
      <span className="breakable">{t.onlyGroup(group)}</span>
      <Button small onClick={clear}>
        {t.showAll}
      </Button>
    </p>
  );
}
