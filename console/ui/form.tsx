/** What a form holds, sends and was told. Whatever is refused, what was typed stays. */

import { type ReactNode, useEffect, useRef, useState } from "react";
import { ApiProblem } from "../api.ts";
import { useText } from "../text/text.tsx";
import { Button } from "./button.tsx";
import { classes } from "./class.ts";
import type { Bound } from "./field.tsx";
import { ProblemNotice, useExplain } from "./notice.tsx";

export interface FormState<Values> {
  values: Values;
  set<Name extends keyof Values & string>(name: Name, value: Values[Name]): void;
  /** For a field: `<TextField {...form.bind("name")} label={…} />`. `param` where the API names it differently. */
  bind<Name extends keyof Values & string>(name: Name, param?: string): Bound<Values[Name]>;
  /** What is wrong with a part of a value, for a field inside it; it is then told there and nowhere else. */
  problemAt(param: string): string | null;
  error: unknown;
  /** What is wrong and belongs to no field that is there. */
  unplaced: readonly string[];
  isSending: boolean;
  /** Something differs from what it began with. */
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
  // A field that is bound can show its problem; the notice on top has the others.
  const bound = useRef(new Set<string>());
  bound.current.clear();
  const explain = useExplain();
  const isChanged = JSON.stringify(values) !== JSON.stringify(begun);
  const problems = error === null ? [] : problemsOf(error, explain(error, isChanged));
  const problemAt = (own: string) => {
    bound.current.add(own);
    return problems.find(({ param }) => param !== null && isOf(param, own))?.text ?? null;
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
        .filter(({ param }) => param === null || !names.some((own) => isOf(param, own)))
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
  /** With the field's name, for where no field is near. */
  line: string;
}

/** One line for each problem, "field: what is wrong"; a single one may name its field apart. */
function problemsOf(error: unknown, told: string): Problem[] {
  const single = error instanceof ApiProblem ? error.param : null;
  return told.split("\n").map((line, _, { length }) => {
    const [, param, text] = /^([\w.[\]"'/:-]+): (.+)$/.exec(line) ?? [];
    if (param !== undefined && text !== undefined) return { param, text, line };
    return { param: length === 1 ? single : null, text: line, line };
  });
}

/** `limits.rpm` is told of within `limits`, and `models.0` within `models`. */
function isOf(param: string, own: string): boolean {
  return param === own || param.startsWith(`${own}.`) || param.startsWith(`${own}[`);
}

interface FormProps {
  form: Pick<FormState<object>, "error" | "unplaced" | "isSending" | "send">;
  children: ReactNode;
  /** What the button says; left out where the children have one. */
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
      // A long form may end far below the button.
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
        else tellOf(mistyped);
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

/** A number or a day that the browser cannot read, and gives as if the field were empty. */
function mistypedIn({ elements }: HTMLFormElement): HTMLInputElement | undefined {
  return [...elements].find(
    (one): one is HTMLInputElement => one instanceof HTMLInputElement && one.validity.badInput,
  );
}

/** The field hears of it by its `invalid` event, and says what is wrong. */
function tellOf(field: HTMLInputElement): void {
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
