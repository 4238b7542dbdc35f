/** The conversations that this browser keeps. */

import { useText } from "../../text/text.tsx";
import { Button, IconButton } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Time } from "../../ui/values.tsx";
import type { Playground } from "./use-playground.ts";

export function ConversationsDialog({ playground, onClose }: { playground: Playground; onClose(): void }) {
  const t = useText("playground");
  const { kept, open, remove } = playground;
  const removeAll = async () => {
    for (const conversation of kept) await remove(conversation);
  };
  return (
    <Dialog title={t.conversations} onClose={onClose}>
      <div className="stack">
        <p className="soft">{t.keptAbout}</p>
        {kept.length === 0 && <p>{t.noneKept}</p>}
        <ul className="conversations">
          {kept.map((conversation) => (
            <li key={conversation.id} className="row apart">
              <button
                type="button"
                className="button quiet"
                onClick={() => {
                  open(conversation);
                  onClose();
                }}
              >
                <span>{conversation.turns[0]?.text || t.onlyImages}</span>
              </button>
              <span className="row small soft">
                <Time at={conversation.atMs} />
                <IconButton
                  small
                  icon="trash"
                  label={t.deleteConversation}
                  onClick={() => void remove(conversation)}
                />
              </span>
            </li>
          ))}
        </ul>
        {kept.length > 0 && (
          <div className="form-actions end">
            <Button tone="danger" icon="trash" onClick={() => void removeAll()}>
              {t.deleteAll}
            </Button>
          </div>
        )}
      </div>
    </Dialog>
  );
}
