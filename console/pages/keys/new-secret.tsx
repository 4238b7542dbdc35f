/** Shows the secret of a new key, once. */

import type { ReactNode } from "react";
import type { ExampleModel } from "../../snippets/example-request.ts";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { CopyButton } from "../../ui/values.tsx";
import { Examples } from "./examples.tsx";

interface NewSecretProps {
  secret: string;
  models: readonly ExampleModel[];
  /** Shown below the secret. */
  note?: ReactNode;
  onDone(): void;
}

/** A secret that is shown once, to be copied, with examples that use it. */
export function NewSecret({ secret, models, note, onDone }: NewSecretProps) {
  const t = useText("keys").made;
  return (
    <div className="stack wide">
      <Notice tone="warn">{t.once}</Notice>
      <section className="secret" aria-label={t.secret}>
        <code>{secret}</code>
        <CopyButton text={secret} label={t.copySecret} />
      </section>
      {note}
      <p>{t.environment}</p>
      <Examples models={models} />
      <Notice tone="info">{t.test}</Notice>
      <div className="form-actions end">
        <Button tone="primary" onClick={onDone}>
          {t.done}
        </Button>
      </div>
    </div>
  );
}
