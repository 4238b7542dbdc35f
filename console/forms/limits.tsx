/** The limits of a key, a user or a group in a form. An empty field is no limit. */

import { mapKinds } from "../../src/base/map-kinds.ts";
import {
  MINUTE_KINDS,
  MINUTE_LIMITS,
  pickSet,
  RATE_KINDS,
  type RateKind,
  type Unit,
  WINDOW_COUNTS,
  type WindowCount,
} from "../../src/records/limits.ts";
import { useFormat, useText } from "../text/text.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { type FieldBinding, NumberField, SelectField, TextField } from "../ui/field.tsx";
import "./limits.css";

/** The limits of an account, as the API accepts and returns them. */
export type Rates = Readonly<Partial<Record<RateKind, number | undefined>>>;

export interface Limits extends Rates {
  windows?: readonly LimitWindow[] | undefined;
}

interface LimitWindow extends Partial<Record<WindowCount, number | undefined>> {
  per: string;
  usd?: string | undefined;
}

/** As the fields hold them. */
export type RatesValue = Readonly<Record<RateKind, number | null>>;

export interface LimitsValue extends RatesValue {
  windows: readonly WindowValue[];
}

interface WindowValue extends Record<WindowCount, number | null> {
  per: Per;
  usd: string;
}

/** In the order of the form. */
const RATE_FIELDS: readonly RateKind[] = [...MINUTE_KINDS, "concurrency"];
const LENGTHS = ["5h", "1d", "7d", "30d"] as const;
type Per = (typeof LENGTHS)[number];

export function ratesValue(rates: Rates = {}): RatesValue {
  return mapKinds(RATE_KINDS, (kind) => rates[kind] ?? null);
}

export function limitsValue({ windows = [], ...rates }: Limits = {}): LimitsValue {
  return {
    ...ratesValue(rates),
    windows: windows.map((window) => ({
      per: LENGTHS.find((length) => length === window.per) ?? "1d",
      ...mapKinds(WINDOW_COUNTS, (unit) => window[unit] ?? null),
      usd: window.usd ?? "",
    })),
  };
}

/** Omits empty fields. */
export function ratesBody(value: RatesValue) {
  return pickSet(RATE_KINDS, value);
}

export function limitsBody({ windows, ...rates }: LimitsValue) {
  return { ...ratesBody(rates), ...(windows.length === 0 ? {} : { windows: windows.map(windowBody) }) };
}

function windowBody({ per, usd, ...counts }: WindowValue) {
  return { per, ...pickSet(WINDOW_COUNTS, counts), ...(usd.trim() === "" ? {} : { usd: usd.trim() }) };
}

interface RateFieldsProps {
  /** The name of the field in the API: `limits`. */
  name: string;
  value: RatesValue;
  onChange(change: Partial<RatesValue>): void;
  problemAt(param: string): string | null;
  /** Limits that apply in addition, so that a higher value has no effect. */
  within?: Limits | undefined;
}

export function RateFields({ name, value, onChange, problemAt, within }: RateFieldsProps) {
  const t = useText("limits");
  const atMost = useAtMost();
  return (
    <div className="limit-rates">
      {RATE_FIELDS.map((kind) => (
        <NumberField
          key={kind}
          name={`${name}.${kind}`}
          label={t[kind]}
          min={1}
          optional
          value={value[kind]}
          onChange={(count) => onChange({ [kind]: count })}
          problem={problemAt(`${name}.${kind}`)}
          hint={atMost.number(within?.[kind])}
        />
      ))}
    </div>
  );
}

interface LimitsFieldsProps extends FieldBinding<LimitsValue> {
  /** The form: the problem of a single limit is shown beside its field. */
  problemAt(param: string): string | null;
  /** Limits that apply in addition, so that a higher value has no effect. */
  within?: Limits;
}

export function LimitsFields({ name, value, onChange, problem, problemAt, within }: LimitsFieldsProps) {
  // A problem that no field shows is shown below all of them.
  const shown = new Set<string>();
  const ownProblem = (...params: string[]) => {
    const found = params.map(problemAt).find((text) => text !== null) ?? null;
    if (found !== null) shown.add(found);
    return found;
  };
  // Noted here: a child component is rendered later.
  for (const kind of RATE_KINDS) ownProblem(`${name}.${kind}`);
  const unused = LENGTHS.filter((length) => !value.windows.some(({ per }) => per === length));
  const setWindows = (windows: readonly WindowValue[]) => onChange({ ...value, windows });
  return (
    <div className="stack">
      <RateFields
        name={name}
        value={value}
        onChange={(change) => onChange({ ...value, ...change })}
        problemAt={problemAt}
        within={within}
      />
      {value.windows.map((window, i) => (
        <WindowFields
          key={window.per}
          name={`${name}.windows.${i}`}
          window={window}
          lengths={[window.per, ...unused]}
          problems={mapKinds(WINDOW_FIELDS, (unit) =>
            ownProblem(`${name}.windows.${i}.${unit}`, `${name}.windows[${i}].${unit}`),
          )}
          within={within?.windows?.find(({ per }) => per === window.per)}
          onChange={(next) => setWindows(value.windows.with(i, next))}
          onRemove={() => setWindows(value.windows.toSpliced(i, 1))}
        />
      ))}
      <AddWindow unused={unused} onAdd={(added) => setWindows([...value.windows, added])} />
      {problem && !shown.has(problem) && <p className="field-problem">{problem}</p>}
    </div>
  );
}

interface WindowFieldsProps {
  name: string;
  window: WindowValue;
  /** The lengths that a window may have: its own, and those that no other window has. */
  lengths: readonly Per[];
  problems: Readonly<Record<WindowField, string | null>>;
  within: LimitWindow | undefined;
  onChange(window: WindowValue): void;
  onRemove(): void;
}

type WindowField = WindowCount | "usd";
const WINDOW_FIELDS: readonly WindowField[] = [...WINDOW_COUNTS, "usd"];

function WindowFields({ name, window, lengths, problems, within, onChange, onRemove }: WindowFieldsProps) {
  const t = useText("limits");
  const atMost = useAtMost();
  const field = <Unit extends WindowField>(unit: Unit) => ({
    name: `${name}.${unit}`,
    label: t[unit],
    value: window[unit],
    onChange: (next: WindowValue[Unit]) => onChange({ ...window, [unit]: next }),
    problem: problems[unit],
  });
  return (
    <fieldset className="limit-window">
      <legend className="unseen">{t.window(t.lengths[window.per])}</legend>
      <SelectField
        name={`${name}.per`}
        label={t.inAny}
        value={window.per}
        choices={lengths.map((length) => ({ value: length, label: t.lengths[length] }))}
        onChange={(per) => onChange({ ...window, per })}
      />
      {WINDOW_COUNTS.map((unit) => (
        <NumberField key={unit} {...field(unit)} min={1} hint={atMost.number(within?.[unit])} />
      ))}
      <TextField {...field("usd")} inputMode="decimal" hint={atMost.money(within?.usd)} />
      <IconButton icon="trash" label={t.removeWindow(t.lengths[window.per])} onClick={onRemove} />
    </fieldset>
  );
}

interface AddWindowProps {
  unused: readonly Per[];
  onAdd(window: WindowValue): void;
}

function AddWindow({ unused: [per], onAdd }: AddWindowProps) {
  const t = useText("limits");
  if (per === undefined) return null;
  return (
    <div>
      <Button
        small
        icon="add"
        onClick={() => onAdd({ per, ...mapKinds(WINDOW_COUNTS, () => null), usd: "" })}
      >
        {t.addWindow}
      </Button>
    </div>
  );
}

/** Hints for limits that apply in addition; undefined where there is none. */
function useAtMost() {
  const t = useText("limits");
  const format = useFormat();
  return {
    number: (value: number | undefined) => (value === undefined ? undefined : t.atMost(format.number(value))),
    money: (usd: string | undefined) => (usd === undefined ? undefined : t.atMost(format.money(usd))),
  };
}

/** Limits in one line: "60 requests a minute, $5 in any day"; null if there are none. */
export function useLimitsText(): (limits: Limits) => string | null {
  const t = useText("limits");
  const format = useFormat();
  const amount = (unit: Unit, count: number) =>
    unit === "requests" ? format.number(count) : format.compact(count);
  return ({ windows = [], ...rates }) => {
    const parts = [
      ...RATE_FIELDS.flatMap((kind) => {
        const limit = rates[kind];
        if (limit === undefined) return [];
        const unit = kind === "concurrency" ? "requests" : MINUTE_LIMITS[kind].unit;
        return [t.summary[kind](amount(unit, limit), limit)];
      }),
      ...windows.flatMap(({ per, usd, ...counts }) => {
        const length = t.lengths[LENGTHS.find((one) => one === per) ?? "1d"];
        return [
          ...WINDOW_COUNTS.flatMap((unit) => {
            const limit = counts[unit];
            return limit === undefined ? [] : [t.summary[unit](amount(unit, limit), length)];
          }),
          ...(usd === undefined ? [] : [t.summary.usd(format.money(usd), length)]),
        ];
      }),
    ];
    return parts.length === 0 ? null : parts.join(t.summary.between);
  };
}
