/** The expiry of a key: after some days, on a date, or never. */

import { ApiProblem } from "../../api.ts";
import { useText } from "../../text/text.tsx";
import { SelectField, TextField } from "../../ui/field.tsx";
import type { FormState } from "../../ui/form.tsx";

const DAY_MS = 86_400_000;
const DAYS = { week: 7, month: 30, quarter: 90, year: 365 } as const;

export type Expiry = "keep" | "never" | keyof typeof DAYS | "date";

export interface ExpiryValues {
  expiry: Expiry;
  /** `2035-01-31`, if a date is selected. */
  date: string;
}

/** The moment of the selected expiry; undefined: unchanged. Throws if a date is required and missing. */
export function useExpiresAt(): (values: ExpiryValues) => number | null | undefined {
  const t = useText("keys").form;
  return ({ expiry, date }) => {
    switch (expiry) {
      case "keep":
        return undefined;
      case "never":
        return null;
      case "date": {
        const ms = Date.parse(`${date}T23:59:59.999Z`);
        if (!Number.isNaN(ms)) return ms;
        throw new ApiProblem({ code: "invalid_value", message: t.dateMissing, param: "expires_at" }, 400);
      }
      default:
        return Date.now() + DAYS[expiry] * DAY_MS;
    }
  };
}

/** `keep` is for an existing key. */
export function ExpiryFields({ form, keep }: { form: FormState<ExpiryValues>; keep?: string }) {
  const t = useText("keys").form;
  const choices: Expiry[] = ["never", "week", "month", "quarter", "year", "date"];
  const { bind, values } = form;
  return (
    <div className="columns">
      <SelectField
        {...bind("expiry", values.expiry === "date" ? "expiry" : "expires_at")}
        label={t.expires}
        choices={[
          ...(keep === undefined ? [] : [{ value: "keep" as const, label: keep }]),
          ...choices.map((value) => ({ value, label: value === "keep" ? "" : t.expiry[value] })),
        ]}
      />
      {values.expiry === "date" && (
        <TextField {...bind("date", "expires_at")} type="date" label={t.date} hint={t.dateHint} />
      )}
    </div>
  );
}
