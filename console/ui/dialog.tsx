/** The native dialog element: it keeps the focus inside, closes on Escape, and restores the focus. */

import { type ReactNode, useEffect, useId, useRef } from "react";
import { useText } from "../text/text.tsx";
import { Button, IconButton } from "./button.tsx";
import { classes } from "./class.ts";
import { TextField } from "./field.tsx";
import { Form, useForm } from "./form.tsx";
import { Notice } from "./notice.tsx";

interface DialogProps {
  title: string;
  /** Omitted if only its content may close it: a secret that is shown once must not disappear by Escape. */
  onClose?(): void;
  children: ReactNode;
  wide?: boolean;
}

/** Open as long as it is rendered: `{isOpen && <Dialog …>}`. */
export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const t = useText("kit");
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const element = dialog.current;
    if (element && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  const isKept = onClose === undefined;
  useEffect(() => {
    if (!isKept) return;
    // On the document: the focused element may have been replaced, and then the focus is outside.
    const keep = (event: KeyboardEvent) => {
      if (event.key === "Escape") event.preventDefault();
    };
    document.addEventListener("keydown", keep);
    return () => document.removeEventListener("keydown", keep);
  }, [isKept]);
  return (
    <dialog
      ref={dialog}
      className={classes("dialog", wide && "wide")}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      // The browser lets another way to dismiss it (a system gesture) pass at the second attempt.
      onClose={({ currentTarget }) => {
        if (currentTarget.isConnected) currentTarget.showModal();
      }}
    >
      <div className="dialog-header">
        <h2 id={heading}>{title}</h2>
        {onClose && <IconButton icon="close" label={t.close} onClick={onClose} />}
      </div>
      <div className="dialog-body">{children}</div>
    </dialog>
  );
}

interface ShownOnceDialogProps {
  title: string;
  warning: string;
  /** The label of the button: what the person has done with the secret. */
  done: string;
  onClose(): void;
  children: ReactNode;
}

/** A secret that is shown once. Only the button closes it. */
export function ShownOnceDialog({ title, warning, done, onClose, children }: ShownOnceDialogProps) {
  return (
    <Dialog title={title}>
      <div className="stack wide">
        <Notice tone="warn">{warning}</Notice>
        {children}
        <div className="form-actions end">
          <Button tone="primary" onClick={onClose}>
            {done}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

interface ConfirmDialogProps {
  title: string;
  /** What the action breaks. */
  children: ReactNode;
  /** The number of requests that used the object in the last day; omitted if it cannot be used. */
  requestsLastDay?: number | null;
  /** The label of the button: the action, not "OK". */
  confirm: string;
  tone?: "primary" | "danger";
  /** A word to type first, for an irreversible action. */
  typed?: string;
  onConfirm(): Promise<unknown>;
  onClose(): void;
}

/** Closes when the action succeeds; an error is shown in the dialog. */
export function ConfirmDialog({
  title,
  children,
  tone = "danger",
  typed,
  onClose,
  ...props
}: ConfirmDialogProps) {
  const t = useText("kit");
  const form = useForm({ typed: "" }, async () => {
    await props.onConfirm();
    onClose();
  });
  const isReady = typed === undefined || form.values.typed === typed;
  return (
    <Dialog title={title} onClose={onClose}>
      <Form form={isReady ? form : { ...form, send: async () => {} }}>
        <div className="stack">{children}</div>
        {props.requestsLastDay !== undefined && props.requestsLastDay !== null && (
          <p>
            <strong>{t.lastDay(props.requestsLastDay)}</strong>
          </p>
        )}
        {typed !== undefined && <TextField {...form.bind("typed")} label={t.typeToConfirm(typed)} />}
        <div className="form-actions end">
          <Button onClick={onClose}>{t.cancel}</Button>
          <Button type="submit" tone={tone} isBusy={form.isSending} disabled={!isReady}>
            {props.confirm}
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}
