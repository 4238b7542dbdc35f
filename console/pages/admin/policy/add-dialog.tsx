/** Adds to a list: shows the entries that it lacks, of which some are selected. */

import { useState } from "react";
import type { Listing } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { type Choice, MultiSelect } from "../../../ui/field.tsx";
import { CancelButton } from "../../../ui/form.tsx";

interface AddDialogProps {
  title: string;
  name: string;
  label: string;
  /** The source of the choices. */
  listing: Pick<Listing<unknown>, "isLoading" | "more">;
  choices: readonly Choice[];
  /** Shown if there is nothing to choose. */
  noMore: string;
  onAdd(chosen: readonly string[]): void;
  onClose(): void;
}

export function AddDialog({ title, name, label, listing, choices, noMore, onAdd, onClose }: AddDialogProps) {
  const kit = useText("kit");
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const { isLoading, more } = listing;
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="stack">
        <MultiSelect
          name={name}
          label={label}
          choices={choices}
          value={chosen}
          onChange={setChosen}
          empty={isLoading ? kit.loading : noMore}
        />
        {more && (
          <Button small isBusy={more.isLoading} onClick={more.load}>
            {kit.loadMore}
          </Button>
        )}
        <div className="form-actions end">
          <CancelButton onClick={onClose} />
          <Button
            tone="primary"
            disabled={chosen.length === 0}
            onClick={() => {
              onAdd(chosen);
              onClose();
            }}
          >
            {kit.add}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
