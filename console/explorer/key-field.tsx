/**
 * The field for the key. It is uncontrolled: React writes controlled values into the attributes of the page, and the
 * key must exist in the field and in memory only.
 */

import { type RefObject, useId, useRef } from "react";
import { useText } from "../text/text.tsx";
import type { KeyModels } from "./use-models.ts";

interface KeyFieldProps {
  keyRef: RefObject<string>;
  models: KeyModels;
  /** Fetches the models that the key can call. */
  onLook(): void;
}

const LOOK_AFTER_MS = 400;

export function KeyField({ keyRef, models, onLook }: KeyFieldProps) {
  const t = useText("explorer");
  const id = useId();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  return (
    <div className="field explorer-key">
      <label htmlFor={id}>{t.key}</label>
      <input
        id={id}
        className="input mono"
        type="password"
        autoComplete="off"
        spellCheck={false}
        aria-describedby={`${id}-hint`}
        data-1p-ignore
        onInput={(event) => {
          keyRef.current = event.currentTarget.value.trim();
          clearTimeout(timer.current);
          timer.current = setTimeout(onLook, LOOK_AFTER_MS);
        }}
      />
      <div className="hint" id={`${id}-hint`}>
        {t.keyHint}{" "}
        <span role="status">
          {models.state === "known" && t.models(models.all.length)}
          {models.state === "rejected" && t.keyRejected}
        </span>
      </div>
    </div>
  );
}
