/** Limits in a form: of a key, a user or a group. What is empty is not limited. */

import { useFormat, useText } from "../text/text.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { type Bound, NumberField, SelectField, TextField } from "../ui/field.tsx";
import "./limits.css";

/** As the API takes and tells them. */
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

/** As they stand in the fields. */
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

/** What was left empty is left out. */
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

interface LimitsFieldsProps extends Bound<LimitsValue> {
  /** The form's: what is wrong with one limit is shown beside it. */
  problemAt(param: string): string | null;
  /** What holds beside it in any case, so that more would do nothing. */
  within?: Limits;
}

export function LimitsFields({ name, value, onChange, problem, problemAt, within }: LimitsFieldsProps) {
  const t = useText("limits");
  const format = useFormat();
  // Of those that no field below shows, the last word is said under them all.
  const shown = new Set<string>();
  const ownProblem = (...params: string[]) => {
    const found = params.map(problemAt).find((text) => text !== null) ?? null;
    if (found !== null) shown.add(found);
    return found;
  };
  const field = <Key extends keyof LimitsValue>(key: Key) => ({
    name: `${name}.${key}`,
    value: value[key],
    onChange: (next: LimitsValue[Key]) => onChange({ ...value, [key]: next }),
    problem: ownProblem(`${name}.${key}`),
  });
  const most = (amount: number | undefined) =>
    amount === undefined ? undefined : t.atMost(format.number(amount));
  const unused = LENGTHS.filter((length) => !value.windows.some(({ per }) => per === length));
  const [next] = unused;
  const setWindow = (at: number, change: Partial<WindowValue>) =>
    onChange({
      ...value,
      windows: value.windows.map((window, i) => (i === at ? { ...window, ...change } : window)),
    });
  return (
    <div className="stack">
      <div className="limit-rates">
        <NumberField {...field("rpm")} label={t.rpm} min={1} hint={most(within?.rpm)} optional />
        <NumberField {...field("tpm")} label={t.tpm} min={1} hint={most(within?.tpm)} optional />
        <NumberField
          {...field("concurrency")}
          label={t.concurrency}
          min={1}
          hint={most(within?.concurrency)}
          optional
        />
      </div>
      {value.windows.map((window, i) => {
        const at = (unit: string) => ({
          name: `${name}.windows.${i}.${unit}`,
          problem: ownProblem(`${name}.windows.${i}.${unit}`, `${name}.windows[${i}].${unit}`),
        });
        const same = within?.windows?.find(({ per }) => per === window.per);
        return (
          <fieldset key={window.per} className="limit-window">
            <legend className="unseen">{t.window(t.lengths[window.per])}</legend>
            <SelectField
              name={`${name}.windows.${i}.per`}
              label={t.inAny}
              value={window.per}
              choices={[window.per, ...unused].map((length) => ({ value: length, label: t.lengths[length] }))}
              onChange={(per) => setWindow(i, { per })}
            />
            <NumberField
              {...at("requests")}
              label={t.requests}
              min={1}
              hint={most(same?.requests)}
              value={window.requests}
              onChange={(requests) => setWindow(i, { requests })}
            />
            <NumberField
              {...at("tokens")}
              label={t.tokens}
              min={1}
              hint={most(same?.tokens)}
              value={window.tokens}
              onChange={(tokens) => setWindow(i, { tokens })}
            />
            <TextField
              {...at("usd")}
              label={t.usd}
              inputMode="decimal"
              hint={same?.usd === undefined ? undefined : t.atMost(format.money(same.usd))}
              value={window.usd}
              onChange={(usd) => setWindow(i, { usd })}
            />
            <IconButton
              icon="trash"
              label={t.removeWindow(t.lengths[window.per])}
              onClick={() => onChange({ ...value, windows: value.windows.filter((_, other) => other !== i) })}
            />
          </fieldset>
        );
      })}
      {next !== undefined && (
        <div>
          <Button
            small
            icon="add"
            onClick={() =>
              onChange({
                ...value,
                windows: [...value.windows, { per: next, requests: null, tokens: null, usd: "" }],
              })
            }
          >
            {t.addWindow}
          </Button>
        </div>
      )}
      {problem && !shown.has(problem) && <p className="field-problem">{problem}</p>}
    </div>
  );
}

/** Limits in one line: "60 requests a minute, $5 in any day"; null where nothing is limited. */
export function useLimitsText(): (limits: Limits) => string | null {
  const t = useText("limits");
  const format = useFormat();
  return ({ concurrency, rpm, tpm, windows = [] }) => {
    const parts = [
      ...(rpm === undefined ? [] : [t.said.rpm(format.number(rpm))]),
      ...(tpm === undefined ? [] : [t.said.tpm(format.compact(tpm))]),
      ...(concurrency === undefined ? [] : [t.said.concurrency(concurrency, format.number(concurrency))]),
      ...windows.flatMap(({ per, requests, tokens, usd }) => {
        const length = t.lengths[LENGTHS.find((one) => one === per) ?? "1d"];
        return [
          ...(requests === undefined ? [] : [t.said.requests(format.number(requests), length)]),
          ...(tokens === undefined ? [] : [t.said.tokens(format.compact(tokens), length)]),
          ...(usd === undefined ? [] : [t.said.usd(format.money(usd), length)]),
        ];
      }),
    ];
    return parts.length === 0 ? null : parts.join(t.said.between);
  };
}
