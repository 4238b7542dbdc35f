/** Pictures to edit and a mask, from the user's computer. */

import { useId } from "react";
import { useText } from "../text/text.tsx";
import { Section } from "../ui/page.tsx";

export interface Chosen {
  images: readonly File[];
  mask: File | null;
}

export const NO_FILES: Chosen = { images: [], mask: null };

const TYPES = "image/png,image/jpeg,image/webp";

export function Files({ chosen, onChange }: { chosen: Chosen; onChange: (chosen: Chosen) => void }) {
  const t = useText("explorer");
  const id = useId();
  return (
    <Section title={t.files} about={t.filesHint}>
      <div className="field">
        <label htmlFor={`${id}-images`}>{t.picture}</label>
        <input
          id={`${id}-images`}
          type="file"
          multiple
          accept={TYPES}
          onChange={(event) => onChange({ ...chosen, images: [...(event.target.files ?? [])] })}
        />
      </div>
      <div className="field">
        <label htmlFor={`${id}-mask`}>{t.mask}</label>
        <input
          id={`${id}-mask`}
          type="file"
          accept="image/png"
          onChange={(event) => onChange({ ...chosen, mask: event.target.files?.[0] ?? null })}
        />
      </div>
    </Section>
  );
}
