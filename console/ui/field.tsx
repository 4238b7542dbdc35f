/**
 * Fields: a label, a control, a hint and a problem. They are controlled; `form.bind("name")` provides the name, the
 * value, the change handler and the problem.
 */

import { type ReactNode, useId, useState } from "react";
import { useText } from "../text/text.tsx";
import { IconButton } from "./button.tsx";
import { classes } from "./class.ts";
import { Icon } from "./icon.tsx";

/** The result of `form.bind`. */
export interface FieldBinding<Value> {
  name: string;
  value: Value;
  onChange(value: Value): void;
  problem?: string | null;
}

interface Around {
  label: string;
  hint?: ReactNode;
  optional?: boolean;
}

interface FieldProps<Value> extends FieldBinding<Value>, Around {
  disabled?: boolean;
}

interface Ids {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

interface FrameProps extends Around {
  problem?: string | null;
  children: (ids: Ids) => ReactNode;
}

/** The parts around the control of a field. Receives all properties of the field. */
function Frame({ label, hint, optional, problem, children }: FrameProps) {
  const t = useText("kit");
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {optional && <span className="optional">{t.optional}</span>}
      </label>
      {children({
        id,
        "aria-describedby": describedBy(id, hint, problem),
        "aria-invalid": problem ? true : undefined,
      })}
      {hint && (
        <div className="hint" id={`${id}-hint`}>
          {hint}
        </div>
      )}
      {problem && <FieldProblem id={`${id}-problem`} text={problem} />}
    </div>
  );
}

function describedBy(id: string, hint: ReactNode, problem: string | null | undefined): string | undefined {
  const ids = [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean);
  return ids.length === 0 ? undefined : ids.join(" ");
}

function FieldProblem({ id, text }: { id: string; text: string }) {
  return (
    <div className="field-problem" id={id}>
      <Icon name="alert" size={14} />
      {text}
    </div>
  );
}

interface TextFieldProps extends FieldProps<string> {
  type?: "text" | "email" | "password" | "url" | "search" | "datetime-local" | "date";
  placeholder?: string;
  autoComplete?: string;
  inputMode?: "text" | "decimal" | "numeric" | "email" | "url";
  maxLength?: number;
  /** A unit, shown at the end of the field. */
  suffix?: string;
  autoFocus?: boolean;
  isMono?: boolean;
}

export function TextField(props: TextFieldProps) {
  const { label, hint, optional, problem, onChange, suffix, isMono, ...input } = props;
  return (
    <Frame {...props}>
      {(ids) => (
        <div className="with-suffix">
          <input
            autoComplete="off"
            {...input}
            {...ids}
            className={classes("input", isMono && "mono")}
            onChange={(event) => onChange(event.target.value)}
          />
          {suffix && <span className="suffix">{suffix}</span>}
        </div>
      )}
    </Frame>
  );
}

interface NumberFieldProps extends FieldProps<number | null> {
  min?: number;
  max?: number;
  step?: number;
  placeholder?: string;
  suffix?: string;
}

/**
 * Empty is null. The browser reports the value of an invalid number as empty: the field keeps the typed text and shows
 * a problem, and `Form` does not send it.
 */
export function NumberField(props: NumberFieldProps) {
  const { name, value, onChange, min, max, step = 1, placeholder, disabled, suffix } = props;
  const t = useText("kit");
  const [isMistyped, setMistyped] = useState(false);
  return (
    <Frame {...props} problem={isMistyped ? t.notNumber : (props.problem ?? null)}>
      {(ids) => (
        <div className="with-suffix">
          <input
            {...ids}
            type="number"
            name={name}
            min={min}
            max={max}
            step={step}
            placeholder={placeholder}
            disabled={disabled}
            className="input"
            value={value ?? ""}
            onChange={(event) => onChange(event.target.value === "" ? null : event.target.valueAsNumber)}
            onInput={({ currentTarget }) => setMistyped(isMistyped && currentTarget.validity.badInput)}
            onBlur={({ currentTarget }) => setMistyped(currentTarget.validity.badInput)}
            onInvalid={({ currentTarget }) => setMistyped(currentTarget.validity.badInput)}
          />
          {suffix && <span className="suffix">{suffix}</span>}
        </div>
      )}
    </Frame>
  );
}

export interface Choice<Value extends string = string> {
  value: Value;
  label: string;
  hint?: string;
  disabled?: boolean;
}

interface SelectFieldProps<Value extends string> extends FieldProps<Value> {
  choices: readonly Choice<Value>[];
}

export function SelectField<Value extends string>(props: SelectFieldProps<Value>) {
  const { name, value, onChange, choices, disabled } = props;
  return (
    <Frame {...props}>
      {(ids) => (
        <select
          {...ids}
          name={name}
          disabled={disabled}
          className="input"
          value={value}
          onChange={(event) => {
            const chosen = choices.find((choice) => choice.value === event.target.value);
            if (chosen) onChange(chosen.value);
          }}
        >
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value} disabled={choice.disabled}>
              {choice.label}
            </option>
          ))}
        </select>
      )}
    </Frame>
  );
}

interface TextAreaFieldProps extends FieldProps<string> {
  rows?: number;
  placeholder?: string;
  maxLength?: number;
  /** Fixed width, no spell check. */
  isCode?: boolean;
}

export function TextAreaField(props: TextAreaFieldProps) {
  const { name, value, onChange, rows, placeholder, maxLength, disabled, isCode } = props;
  return (
    <Frame {...props}>
      {(ids) => (
        <textarea
          {...ids}
          name={name}
          rows={rows}
          placeholder={placeholder}
          maxLength={maxLength}
          disabled={disabled}
          spellCheck={!isCode}
          className={classes("input", isCode && "code")}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Frame>
  );
}

export function CheckboxField(props: FieldProps<boolean>) {
  const { name, value, onChange, problem, label, hint, disabled } = props;
  const id = useId();
  return (
    <div className="field">
      <label className="check">
        <input
          type="checkbox"
          name={name}
          checked={value}
          disabled={disabled}
          aria-describedby={describedBy(id, hint, problem)}
          onChange={(event) => onChange(event.target.checked)}
        />
        <span>{label}</span>
        {hint && (
          <span className="hint" id={`${id}-hint`}>
            {hint}
          </span>
        )}
      </label>
      {problem && <FieldProblem id={`${id}-problem`} text={problem} />}
    </div>
  );
}

/** From this number of choices on there is a search. */
const SEARCH_FROM = 9;

interface MultiSelectProps extends FieldBinding<readonly string[]>, Around {
  choices: readonly Choice[];
  /** Shown if there is nothing to choose. */
  empty?: ReactNode;
}

export function MultiSelect(props: MultiSelectProps) {
  const { name, value, onChange, problem, label, hint, optional, choices, empty } = props;
  const t = useText("kit");
  const id = useId();
  const [search, setSearch] = useState("");
  const wanted = search.trim().toLowerCase();
  const shown = choices.filter((choice) => choice.label.toLowerCase().includes(wanted));
  return (
    <fieldset className="field" aria-describedby={problem ? `${id}-problem` : undefined}>
      <legend>
        {label}
        {optional && <span className="optional">{t.optional}</span>}
        {value.length > 0 && <span className="optional">{t.chosen(value.length)}</span>}
      </legend>
      <div className="choices">
        {choices.length >= SEARCH_FROM && (
          <div className="choices-search">
            <input
              type="search"
              className="input small"
              aria-label={t.filterOptions}
              placeholder={t.search}
              value={search}
              onChange={(event) => setSearch(event.target.value)}
            />
          </div>
        )}
        {shown.map((choice) => (
          <label key={choice.value} className="check">
            <input
              type="checkbox"
              name={name}
              checked={value.includes(choice.value)}
              disabled={choice.disabled}
              onChange={(event) =>
                onChange(
                  event.target.checked
                    ? [...value, choice.value]
                    : value.filter((chosen) => chosen !== choice.value),
                )
              }
            />
            <span className="breakable">{choice.label}</span>
            {choice.hint && <span className="hint">{choice.hint}</span>}
          </label>
        ))}
        {shown.length === 0 && <p>{choices.length === 0 ? (empty ?? t.none) : t.nothingFound}</p>}
      </div>
      {hint && <div className="hint">{hint}</div>}
      {problem && <FieldProblem id={`${id}-problem`} text={problem} />}
    </fieldset>
  );
}

interface SecretFieldProps extends FieldProps<string> {
  placeholder?: string;
  autoComplete?: "current-password" | "new-password" | "off" | "one-time-code";
}

/** The typed text is hidden unless its button reveals it. */
export function SecretField(props: SecretFieldProps) {
  const { name, value, onChange, autoComplete = "off", placeholder, disabled } = props;
  const t = useText("kit");
  const [isOpen, setOpen] = useState(false);
  return (
    <Frame {...props}>
      {(ids) => (
        <div className="with-suffix">
          <input
            {...ids}
            type={isOpen ? "text" : "password"}
            name={name}
            autoComplete={autoComplete}
            spellCheck={false}
            placeholder={placeholder}
            disabled={disabled}
            className="input"
            value={value}
            onChange={(event) => onChange(event.target.value)}
          />
          <span className="suffix live">
            <IconButton
              small
              icon={isOpen ? "eyeOff" : "eye"}
              label={isOpen ? t.hideSecret : t.showSecret}
              aria-pressed={isOpen}
              onClick={() => setOpen(!isOpen)}
            />
          </span>
        </div>
      )}
    </Frame>
  );
}

interface SegmentsProps<Value extends string> {
  label: string;
  value: Value;
  choices: readonly Choice<NoInfer<Value>>[];
  onChange(value: NoInfer<Value>): void;
}

/** A few choices in one line, of which one is selected. */
export function Segments<Value extends string>({ label, value, choices, onChange }: SegmentsProps<Value>) {
  const name = useId();
  return (
    <fieldset className="segments" aria-label={label}>
      {choices.map((choice) => (
        <label key={choice.value}>
          <input
            type="radio"
            name={name}
            checked={choice.value === value}
            onChange={() => onChange(choice.value)}
          />
          {choice.label}
        </label>
      ))}
    </fieldset>
  );
}
