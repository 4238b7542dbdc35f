/** The limits that an upstream grants an account. */

import { useText } from "../../../text/text.tsx";
import { NumberField } from "../../../ui/field.tsx";
import "./policy.css";

export interface Rates {
  concurrency: number | null;
  rpm: number | null;
  tpm: number | null;
}

interface RateFieldsProps {
  /** The name of the field in the API: `limits`. */
  name: string;
  value: Rates;
  onChange(value: Rates): void;
  problemAt(param: string): string | null;
}

export function RateFields({ name, value, onChange, problemAt }: RateFieldsProps) {
  const t = useText("limits");
  return (
    <div className="policy-rates">
      {(["rpm", "tpm", "concurrency"] as const).map((rate) => (
        <NumberField
          key={rate}
          name={`${name}.${rate}`}
          label={t[rate]}
          min={1}
          optional
          value={value[rate]}
          onChange={(count) => onChange({ ...value, [rate]: count })}
          problem={problemAt(`${name}.${rate}`)}
        />
      ))}
    </div>
  );
}

/** The limits that are set. */
export function ratesDocument({ concurrency, rpm, tpm }: Rates) {
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rpm === null ? {} : { rpm }),
    ...(tpm === null ? {} : { tpm }),
  };
}
