/** The limits of a key, a user or a group in a form. An empty field is no limit. */

import { useFormat, useText } from "../text/text.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { type FieldBinding, NumberField, SelectField, TextField } from "../ui/field.tsx";
import "./limits.css";

/** As the API accepts and returns them. */
export interface Limits {
  concurrency?: number | undefined;
  rpm?: number | undefined;
  tpm?: number | undefined;
  windows?: readonly LimitWindow[] | undefined;
}

interface LimitWindow {
  per: string;
  requests?: number | undefined;
  tokens?: number | undefined;
  usd?: string | undefined;
}

/** As the fields hold them. */
export interface LimitsValue {
  concurrency: number | null;
  rpm: number | null;
  tpm: number | null;
  windows: readonly WindowValue[];
}

interface WindowValue {
  per: Per;
  requests: number | null;
  tokens: number | null;
  usd: string;
}

const LENGTHS = ["5h", "1d", "7d", "30d"] as const;
type Per = (typeof LENGTHS)[number];

export function limitsValue({ concurrency, rpm, tpm, windows = [] }: Limits = {}): LimitsValue {
  return {
    concurrency: concurrency ?? null,
    rpm: rpm ?? null,
    tpm: tpm ?? null,
    windows: windows.map((window) => ({
      per: LENGTHS.find((length) => length === window.per) ?? "1d",
      requests: window.requests ?? null,
      tokens: window.tokens ?? null,
      usd: window.usd ?? "",
    })),
  };
}

/** Omits empty fields. */
export function limitsBody({ concurrency, rpm, tpm, windows }: LimitsValue) {
  return {
    ...(concurrency === null ? {} : { concurrency }),
    ...(rpm === null ? {} : { rpm }),
    ...(tpm === null ? {} : { tpm }),
    ...(windows.length === 0 ? {} : { windows: windows.map(windowBody) }),
  };
}

function windowBody({ per, requests, tokens, usd }: WindowValue) {
  return {
    per,
    ...(requests === null ? {} : { requests }),
    ...(tokens === null ? {} : { tokens }),
    ...(usd.trim() === "" ? {} : { usd: usd.trim() }),
  };
}

interface LimitsFieldsProps extends FieldBinding<LimitsValue> {
  /** The form: the problem of a single limit is shown beside its field. */
  problemAt(param: string): string | null;
  /** Limits that apply in addition, so that a higher value has no effect. */
  within?: Limits;
}

export function LimitsFields({ name, value, onChange, problem, problemAt, within }: LimitsFieldsProps) {
  const t = useText("limits");
  const atMost = useAtMost();
  // A problem that no field shows is shown below all of them.
  const shown = new Set<string>();
  const ownProblem = (...params: string[]) => {
    const found = params.map(problemAt).find((text) => text !== null) ?? null;
    if (found !== null) shown.add(found);
    return found;
  };
  const rate = (key: "rpm" | "tpm" | "concurrency") => ({
    name: `${name}.${key}`,
    value: value[key],
    onChange: (next: number | null) => onChange({ ...value, [key]: next }),
    problem: ownProblem(`${name}.${key}`),
    hint: atMost.number(within?.[key]),
  });
  const unused = LENGTHS.filter((length) => !value.windows.some(({ per }) => per === length));
  const setWindows = (windows: readonly WindowValue[]) => onChange({ ...value, windows });
  return (
    <div className="stack">
      <div className="limit-rates">
        <NumberField {...rate("rpm")} label={t.rpm} min={1} optional />
        <NumberField {...rate("tpm")} label={t.tpm} min={1} optional />
        <NumberField {...rate("concurrency")} label={t.concurrency} min={1} optional />
      </div>
      {value.windows.map((window, i) => (
        <WindowFields
          key={window.per}
          name={`${name}.windows.${i}`}
          window={window}
          lengths={[window.per, ...unused]}
          problems={mapUnits((unit) =>
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
  problems: Readonly<Record<WindowUnit, string | null>>;
  within: LimitWindow | undefined;
  onChange(window: WindowValue): void;
  onRemove(): void;
}

type WindowUnit = "requests" | "tokens" | "usd";

function mapUnits<Value>(map: (unit: WindowUnit) => Value): Record<WindowUnit, Value> {
  return { requests: map("requests"), tokens: map("tokens"), usd: map("usd") };
}

function WindowFields({ name, window, lengths, problems, within, onChange, onRemove }: WindowFieldsProps) {
  const t = useText("limits");
  const atMost = useAtMost();
  const field = <Unit extends WindowUnit>(unit: Unit) => ({
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
      <NumberField {...field("requests")} min={1} hint={atMost.number(within?.requests)} />
      <NumberField {...field("tokens")} min={1} hint={atMost.number(within?.tokens)} />
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
      <Button small icon="add" onClick={() => onAdd({ per, requests: null, tokens: null, usd: "" })}>
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
  return ({ concurrency, rpm, tpm, windows = [] }) => {
    const parts = [
      ...(rpm === undefined ? [] : [t.summary.rpm(format.number(rpm))]),
      ...(tpm === undefined ? [] : [t.summary.tpm(format.compact(tpm))]),
      ...(concurrency === undefined ? [] : [t.summary.concurrency(concurrency, format.number(concurrency))]),
      ...windows.flatMap(({ per, requests, tokens, usd }) => {
        const length = t.lengths[LENGTHS.find((one) => one === per) ?? "1d"];
        return [
          ...(requests === undefined ? [] : [t.summary.requests(format.number(requests), length)]),
          ...(tokens === undefined ? [] : [t.summary.tokens(format.compact(tokens), length)]),
          ...(usd === undefined ? [] : [t.summary.usd(format.money(usd), length)]),
        ];
      }),
    ];
    return parts.length === 0 ? null : parts.join(t.summary.between);
  };
}
