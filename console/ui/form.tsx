/** The values, the sending and the problems of a form. After an error, the typed values stay. */

import { type ReactNode, useEffect, useRef, useState } from "react";
import { ApiProblem } from "../api.ts";
import { useText } from "../text/text.tsx";
import { Button } from "./button.tsx";
import { classes } from "./class.ts";
import type { FieldBinding } from "./field.tsx";
import { ProblemNotice, useExplain } from "./notice.tsx";

export interface FormState<Values> {
  values: Values;
  set<Name extends keyof Values & string>(name: Name, value: Values[Name]): void;
  /** For a field: `<TextField {...form.bind("name")} label={…} />`. `param` if the API uses another name. */
  bind<Name extends keyof Values & string>(name: Name, param?: string): FieldBinding<Values[Name]>;
  /** The problem of a part of a value, for a field inside it, which then shows it instead of the form. */
  problemAt(param: string): string | null;
  error: unknown;
  /** Problems that no rendered field shows. */
  unplaced: readonly string[];
  isSending: boolean;
  /** A value differs from its initial value. */
  isChanged: boolean;
  send(): Promise<void>;
  reset(values?: Values): void;
}

/**
 * `send` gets the values and may throw: an `ApiProblem` with a `param` is shown beside its field, anything else on top.
 */
export function useForm<Values extends object>(
  initial: Values,
  send: (values: Values) => Promise<unknown>,
): FormState<Values> {
  const [begun, setBegun] = useState(initial);
  const [values, setValues] = useState(initial);
  const [error, setError] = useState<unknown>(null);
  const [isSending, setSending] = useState(false);
  // A bound field shows its own problem; the notice below the fields shows the others.
  const bound = useRef(new Set<string>());
  bound.current.clear();
  const explain = useExplain();
  const isChanged = JSON.stringify(values) !== JSON.stringify(begun);
  const problems = error === null ? [] : listProblems(error, explain(error, isChanged));
  const problemAt = (own: string) => {
    bound.current.add(own);
    return problems.find(({ param }) => param !== null && isAtOrBelow(param, own))?.text ?? null;
  };
  return {
    values,
    set: (name, value) => setValues((before) => ({ ...before, [name]: value })),
    bind(name, as) {
      const own = as ?? name;
      return {
        name: own,
        value: values[name],
        onChange: (value) => setValues((before) => ({ ...before, [name]: value })),
        problem: problemAt(own),
      };
    },
    problemAt,
    get unplaced() {
      const names = [...bound.current];
      return problems
        .filter(({ param }) => param === null || !names.some((own) => isAtOrBelow(param, own)))
        .map(({ line }) => line);
    },
    error,
    isSending,
    isChanged,
    async send() {
      if (isSending) return;
      setSending(true);
      setError(null);
      try {
        await send(values);
      } catch (problem) {
        setError(problem);
      } finally {
        setSending(false);
      }
    },
    reset(next = begun) {
      setBegun(next);
      setValues(next);
      setError(null);
    },
  };
}

interface Problem {
  param: string | null;
  text: string;
  /** With the name of the field, for a problem that is shown away from it. */
  line: string;
}

/** One line for each problem, "field: text"; the field of a single problem may be named separately. */
function listProblems(error: unknown, message: string): Problem[] {
  const single = error instanceof ApiProblem ? error.param : null;
  return message.split("\n").map((line, _, { length }) => {
    const [, param, text] = /^([\w.[\]"'/:-]+): (.+)$/.exec(line) ?? [];
    if (param !== undefined && text !== undefined) return { param, text, line };
    return { param: length === 1 ? single : null, text: line, line };
  });
}

/** A problem of `limits.rpm` belongs to `limits`, one of `models.0` to `models`. */
function isAtOrBelow(param: string, own: string): boolean {
  return param === own || param.startsWith(`${own}.`) || param.startsWith(`${own}[`);
}

interface FormProps {
  form: Pick<FormState<object>, "error" | "unplaced" | "isSending" | "send">;
  children: ReactNode;
  /** The label of the button; omitted if the children contain a button. */
  submit?: string;
  /** Beside the button. */
  actions?: ReactNode;
  atEnd?: boolean;
  tone?: "primary" | "danger";
}

export function Form({ form, children, submit, actions, atEnd, tone = "primary" }: FormProps) {
  const element = useRef<HTMLFormElement>(null);
  const wasSending = useRef(false);
  useEffect(() => {
    if (wasSending.current && !form.isSending) {
      const field = element.current?.querySelector<HTMLElement>("[aria-invalid=true]");
      if (field) field.focus();
      // In a long form the notice may be out of sight.
      else element.current?.querySelector(":scope > .notice.bad")?.scrollIntoView({ block: "nearest" });
    }
    wasSending.current = form.isSending;
  }, [form.isSending]);
  return (
    <form
      ref={element}
      className="form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        event.stopPropagation();
        const mistyped = mistypedIn(event.currentTarget);
        if (mistyped === undefined) void form.send();
        else showInvalid(mistyped);
      }}
    >
      {children}
      <FormProblem form={form} />
      {submit !== undefined && (
        <div className={classes("form-actions", atEnd && "end")}>
          {atEnd && actions}
          <Button type="submit" tone={tone} isBusy={form.isSending}>
            {submit}
          </Button>
          {!atEnd && actions}
        </div>
      )}
    </form>
  );
}

/** A number or a date that the browser cannot parse, and reports as empty. */
function mistypedIn({ elements }: HTMLFormElement): HTMLInputElement | undefined {
  return [...elements].find(
    (one): one is HTMLInputElement => one instanceof HTMLInputElement && one.validity.badInput,
  );
}

/** The `invalid` event makes the field show its problem. */
function showInvalid(field: HTMLInputElement): void {
  field.checkValidity();
  field.focus();
}

/** Rendered after the fields, so that it knows which problems they show themselves. */
function FormProblem({ form }: { form: Pick<FormState<object>, "error" | "unplaced"> }) {
  return form.unplaced.length === 0 ? null : <ProblemNotice error={form.error} lines={form.unplaced} />;
}

/** "Cancel" of a form in a dialog. */
export function CancelButton({ onClick }: { onClick: () => void }) {
  const t = useText("kit");
  return <Button onClick={onClick}>{t.cancel}</Button>;
}
