/** The browser's own dialog: it keeps the focus inside, closes on Escape, and gives the focus back. */

import { type ReactNode, useEffect, useId, useRef } from "react";
import { useText } from "../text/text.tsx";
import { Button, IconButton } from "./button.tsx";
import { classes } from "./class.ts";
import { TextField } from "./field.tsx";
import { Form, useForm } from "./form.tsx";

interface DialogProps {
  title: string;
  /** Left out where only what is inside closes it: for what is shown this once, and gone by a key that slipped. */
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
    // At the document: the focus need not be inside, where what had it was replaced.
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
      // Other ways to dismiss it (a gesture of the system's) are let through a second time, whatever was said to the first.
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

interface ConfirmDialogProps {
  title: string;
  /** What will break. */
  children: ReactNode;
  /** How many used it in the last day; left out where nothing is used. */
  requestsLastDay?: number | null;
  /** What the button says: the deed, not "OK". */
  confirm: string;
  tone?: "primary" | "danger";
  /** Has to be typed first, for what cannot be undone. */
  typed?: string;
  onConfirm(): Promise<unknown>;
  onClose(): void;
}

/** Closes when the deed is done; a refusal is shown in it. */
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
