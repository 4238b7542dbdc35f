/** The form of a key's own limits. */

import { type Limits, LimitsFields, type LimitsValue } from "../../forms/limits.tsx";
import { useText } from "../../text/text.tsx";
import type { FormState } from "../../ui/form.tsx";

interface OwnLimitsProps {
  form: FormState<{ limits: LimitsValue }>;
  /** The limits that the group sets for each key. */
  within: Limits | undefined;
  isOpen?: boolean;
}

/** Closed at first, because most keys have no limits; a problem inside opens it. */
export function OwnLimits({ form, within, isOpen }: OwnLimitsProps) {
  const t = useText("keys").form;
  const limits = form.bind("limits");
  return (
    <details className="details" open={isOpen === true || Boolean(limits.problem)}>
      <summary>{t.limits}</summary>
      <div className="stack">
        <p className="small soft">{t.limitsHint}</p>
        <LimitsFields {...limits} problemAt={form.problemAt} {...(within ? { within } : {})} />
      </div>
    </details>
  );
}
