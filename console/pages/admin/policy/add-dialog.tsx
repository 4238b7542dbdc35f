/** Adding to a list: those that it has not got yet, of which some are chosen. */

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
  /** Where the choices come from. */
  listing: Pick<Listing<unknown>, "isLoading" | "more">;
  choices: readonly Choice[];
  /** Said when there is nothing to choose. */
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
