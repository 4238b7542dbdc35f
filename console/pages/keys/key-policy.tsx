/** The request policy of a key. */

import { useState } from "react";
import { useApi } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { type FieldBinding, SelectField } from "../../ui/field.tsx";

/** The policies that the caller may choose. Without any, the field is left out. */
export function KeyPolicy({ binding }: { binding: FieldBinding<string> }) {
  const t = useText("adminPolicies");
  const offered = useApi("request_policies.list");
  const [present] = useState(binding.value);
  const names = new Set([present, ...(offered.data?.data ?? []).map(({ name }) => name)]);
  names.delete("");
  if (names.size === 0) return null;
  return (
    <SelectField
      {...binding}
      label={t.ofKey}
      hint={t.ofKeyHint}
      choices={[{ value: "", label: t.none }, ...[...names].map((name) => ({ value: name, label: name }))]}
    />
  );
}
