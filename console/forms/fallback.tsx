/** The fallback steps of a group or a model in a form. */

import type { FallbackCondition } from "../../src/records/fallback.ts";
import { useText } from "../text/text.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { MultiSelect, SelectField, TextField } from "../ui/field.tsx";
import "./fallback.css";

const CONDITIONS: readonly FallbackCondition[] = [
  "busy",
  "failing",
  "too_long",
  "subscription_used",
  "window_used",
];
const STEPS_MAX = 4;

export type FallbackTarget = "group" | "model";
type Payer = "none" | "balance" | "subscription";

interface Conditions {
  when: readonly FallbackCondition[];
  pay?: Payer | undefined;
  max_price?: string | undefined;
  leave_after?: string | undefined;
  stay?: string | undefined;
}

/** As the fields hold it; empty texts are left out of the document. */
export interface StepValue {
  /** Identifies the step while others are moved. */
  id: number;
  target: string;
  when: readonly string[];
  pay: "" | Payer;
  maxPrice: string;
  leaveAfter: string;
  stay: string;
}

export function stepValues<Target extends FallbackTarget>(
  target: Target,
  steps: readonly (Conditions & { [Name in Target]: string })[] = [],
): StepValue[] {
  return steps.map((step, id) => ({
    id,
    target: step[target],
    when: step.when,
    pay: step.pay ?? "",
    maxPrice: step.max_price ?? "",
    leaveAfter: step.leave_after ?? "",
    stay: step.stay ?? "",
  }));
}

export function stepConditions(step: StepValue) {
  const text = (value: string) => value.trim();
  return {
    when: CONDITIONS.filter((condition) => step.when.includes(condition)),
    ...(step.pay === "" ? {} : { pay: step.pay }),
    ...(text(step.maxPrice) === "" ? {} : { max_price: text(step.maxPrice) }),
    ...(text(step.leaveAfter) === "" ? {} : { leave_after: text(step.leaveAfter) }),
    ...(text(step.stay) === "" ? {} : { stay: text(step.stay) }),
  };
}

interface FallbackFieldsProps {
  target: FallbackTarget;
  /** Names of the groups or models that may be chosen. */
  choices: readonly string[];
  value: readonly StepValue[];
  onChange(steps: readonly StepValue[]): void;
  problemAt(param: string): string | null;
}

export function FallbackFields({ target, choices, value, onChange, problemAt }: FallbackFieldsProps) {
  const t = useText("fallback");
  const move = (from: number, to: number) => {
    const moved = value[from];
    if (moved !== undefined) onChange(value.toSpliced(from, 1).toSpliced(to, 0, moved));
  };
  const add = () => {
    const id = Math.max(-1, ...value.map((step) => step.id)) + 1;
    const when = ["busy", "failing"];
    onChange([...value, { id, target: "", when, pay: "", maxPrice: "", leaveAfter: "", stay: "" }]);
  };
  return (
    <div className="stack">
      {value.length === 0 && <p className="soft">{t.none}</p>}
      {value.map((step, at) => (
        <StepFields
          key={step.id}
          target={target}
          choices={choices}
          at={at}
          step={step}
          problemAt={problemAt}
          onChange={(next) => onChange(value.with(at, next))}
          tools={
            <>
              <IconButton
                small
                icon="chevronUp"
                label={t.up(t.step(at + 1))}
                disabled={at === 0}
                onClick={() => move(at, at - 1)}
              />
              <IconButton
                small
                icon="chevronDown"
                label={t.down(t.step(at + 1))}
                disabled={at === value.length - 1}
                onClick={() => move(at, at + 1)}
              />
              <IconButton
                small
                icon="trash"
                label={t.remove(t.step(at + 1))}
                onClick={() => onChange(value.toSpliced(at, 1))}
              />
            </>
          }
        />
      ))}
      {value.length < STEPS_MAX ? (
        <div>
          <Button small icon="add" onClick={add}>
            {t.add}
          </Button>
        </div>
      ) : (
        <p className="small soft">{t.most(STEPS_MAX)}</p>
      )}
    </div>
  );
}

interface StepFieldsProps extends Pick<FallbackFieldsProps, "target" | "choices" | "problemAt"> {
  at: number;
  step: StepValue;
  tools: React.ReactNode;
  onChange(step: StepValue): void;
}

function StepFields({ target, choices, at, step, tools, problemAt, onChange }: StepFieldsProps) {
  const t = useText("fallback");
  const { charges } = useText("policy");
  const names = step.target === "" || choices.includes(step.target) ? choices : [step.target, ...choices];
  const text = (field: "maxPrice" | "leaveAfter" | "stay", param: string) => ({
    name: `fallback.${at}.${param}`,
    value: step[field],
    onChange: (next: string) => onChange({ ...step, [field]: next }),
    problem: problemAt(`fallback[${at}].${param}`),
    optional: true,
  });
  return (
    <fieldset className="fallback-step">
      <legend className="unseen">{t.step(at + 1)}</legend>
      <div className="fallback-step-head">
        <h3>{t.step(at + 1)}</h3>
        <div>{tools}</div>
      </div>
      <div className="fallback-step-fields">
        <SelectField
          name={`fallback.${at}.${target}`}
          label={t.target[target]}
          value={step.target}
          onChange={(next) => onChange({ ...step, target: next })}
          problem={problemAt(`fallback[${at}].${target}`)}
          choices={[
            ...(step.target === "" ? [{ value: "", label: t.choose }] : []),
            ...names.map((name) => ({ value: name, label: name })),
          ]}
        />
        <SelectField
          name={`fallback.${at}.pay`}
          label={t.pay}
          value={step.pay}
          onChange={(pay) => onChange({ ...step, pay })}
          problem={problemAt(`fallback[${at}].pay`)}
          choices={[
            { value: "", label: t.payDefault },
            ...(["none", "balance", "subscription"] as const).map((pay) => ({
              value: pay,
              label: charges[pay],
            })),
          ]}
        />
      </div>
      <MultiSelect
        name={`fallback.${at}.when`}
        label={t.when}
        value={step.when}
        onChange={(when) => onChange({ ...step, when })}
        problem={problemAt(`fallback[${at}].when`)}
        choices={CONDITIONS.map((condition) => ({
          value: condition,
          label: t.conditions[condition],
        }))}
      />
      <div className="fallback-step-fields">
        <TextField
          {...text("maxPrice", "max_price")}
          label={t.maxPrice}
          hint={t.maxPriceHint}
          inputMode="decimal"
        />
        <TextField {...text("leaveAfter", "leave_after")} label={t.leaveAfter} hint={t.leaveAfterHint} />
        <TextField {...text("stay", "stay")} label={t.stay} hint={t.stayHint} />
      </div>
    </fieldset>
  );
}
