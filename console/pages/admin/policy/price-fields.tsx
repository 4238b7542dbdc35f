/** Fields for a price: the usual three first, the others in a section that is closed at first. */

import { useText } from "../../../text/text.tsx";
import { NumberField, TextAreaField, TextField } from "../../../ui/field.tsx";
import {
  CALL_UNITS,
  LONG_UNITS,
  MAIN_UNITS,
  MORE_UNITS,
  type PriceUnit,
  type PriceValues,
  TIERS,
} from "./price.ts";
import "./policy.css";

interface PriceFieldsProps {
  /** The name of the field in the API: `price`. */
  name: string;
  value: PriceValues;
  onChange(value: PriceValues): void;
  problemAt(param: string): string | null;
}

export function PriceFields({ name, value, onChange, problemAt }: PriceFieldsProps) {
  const t = useText("policy");
  const { units, long } = value;
  const unitField = (unit: PriceUnit) => (
    <TextField
      key={unit}
      name={`${name}.${unit}`}
      label={t.units[unit]}
      inputMode="decimal"
      suffix={unit === "image" || unit === "request" ? t.usdEach : t.usdPerMillion}
      value={units[unit] ?? ""}
      onChange={(usd) => onChange({ ...value, units: { ...units, [unit]: usd } })}
      problem={problemAt(`${name}.${unit}`)}
    />
  );
  return (
    <div className="stack">
      <div className="policy-rates">{MAIN_UNITS.map(unitField)}</div>
      <details className="policy-more" open={hasMorePrices(value)}>
        <summary>{t.morePrices}</summary>
        <div className="stack">
          <p className="small soft">{t.fallbacks}</p>
          <div className="policy-rates">{MORE_UNITS.map(unitField)}</div>
          <CallAndTierFields name={name} value={value} onChange={onChange} problemAt={problemAt} />
          <TextAreaField
            name={`${name}.images`}
            label={t.images}
            hint={t.imagesHint}
            isCode
            optional
            rows={3}
            value={value.images}
            onChange={(images) => onChange({ ...value, images })}
            problem={problemAt(`${name}.images`)}
          />
          <div>
            <h4>{t.longContext}</h4>
            <p className="small soft">{t.longContextAbout}</p>
          </div>
          <div className="policy-rates">
            <NumberField
              name={`${name}.long_context.above`}
              label={t.longAbove}
              min={1}
              value={value.longAbove}
              onChange={(longAbove) => onChange({ ...value, longAbove })}
              problem={problemAt(`${name}.long_context.above`)}
            />
            {LONG_UNITS.map((unit) => (
              <TextField
                key={unit}
                name={`${name}.long_context.${unit}`}
                label={t.units[unit]}
                inputMode="decimal"
                suffix={t.usdPerMillion}
                value={long[unit] ?? ""}
                onChange={(usd) => onChange({ ...value, long: { ...long, [unit]: usd } })}
                problem={problemAt(`${name}.long_context.${unit}`)}
              />
            ))}
          </div>
        </div>
      </details>
    </div>
  );
}

/** Tools that the upstream bills by the call, and service tiers with other prices. */
function CallAndTierFields({ name, value, onChange, problemAt }: PriceFieldsProps) {
  const t = useText("policy");
  const { calls, tiers } = value;
  return (
    <div className="policy-rates">
      {CALL_UNITS.map((unit) => (
        <TextField
          key={unit}
          name={`${name}.per_call.${unit}`}
          label={t.callUnits[unit]}
          inputMode="decimal"
          suffix={t.usdEach}
          value={calls[unit] ?? ""}
          onChange={(usd) => onChange({ ...value, calls: { ...calls, [unit]: usd } })}
          problem={problemAt(`${name}.per_call.${unit}`)}
        />
      ))}
      {TIERS.map((tier) => (
        <TextField
          key={tier}
          name={`${name}.tier.${tier}`}
          label={t.tiers[tier]}
          inputMode="decimal"
          suffix={t.multiplier}
          value={tiers[tier] ?? ""}
          onChange={(multiplier) => onChange({ ...value, tiers: { ...tiers, [tier]: multiplier } })}
          problem={problemAt(`${name}.tier.${tier}`)}
        />
      ))}
    </div>
  );
}

/** Whether the price has more than the usual three. */
function hasMorePrices({ units, images, longAbove, calls, tiers }: PriceValues): boolean {
  return (
    [calls, tiers].some((fields) => Object.keys(fields).length > 0) ||
    MORE_UNITS.some((unit) => units[unit] !== undefined) ||
    images !== "" ||
    longAbove !== null
  );
}
