/** The state of the playground: the conversation that is shown, and those that the browser keeps. */

import { useEffect, useRef, useState } from "react";
import { useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { useToast } from "../../ui/toast.tsx";
import { type Conversation, NO_SETTINGS } from "./conversation.ts";
import { PlaygroundSession } from "./playground-session.ts";
import { deleteConversation, listConversations, saveConversation } from "./saved-conversations.ts";
import { TemporarySecrets } from "./temporary-secrets.ts";

export interface Playground {
  readonly session: PlaygroundSession;
  readonly conversation: Conversation;
  readonly kept: readonly Conversation[];
  /** Null: a new one, with the settings and models of the present one. */
  open(conversation: Conversation | null): void;
  remove(conversation: Conversation): Promise<void>;
}

export function usePlayground(): Playground {
  const { id: userId } = useUser();
  const t = useText("playground");
  const showToast = useToast();
  const secrets = useRef(new TemporarySecrets());
  const [kept, setKept] = useState<readonly Conversation[]>([]);
  const [conversation, setConversation] = useState(() => startConversation(null));
  // A browser may reject all storage, for example in a private window.
  const onNotKept = () => showToast(t.notKept, "bad");
  const refresh = () => listConversations(userId).then(setKept, onNotKept);
  const start = (begun: Conversation) =>
    new PlaygroundSession(begun, {
      secrets: secrets.current,
      onChange: setConversation,
      onSettled: (settled) => void saveConversation(userId, settled).then(refresh, onNotKept),
    });
  const session = useRef<PlaygroundSession | null>(null);
  session.current ??= start(conversation);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the page is opened.
  useEffect(() => {
    void refresh();
    return () => session.current?.close();
  }, []);
  return {
    session: session.current,
    conversation,
    kept,
    open(chosen) {
      session.current?.close();
      const next = chosen ?? startConversation(conversation);
      session.current = start(next);
      setConversation(next);
    },
    async remove({ id }) {
      await deleteConversation(id);
      await refresh();
    },
  };
}

function startConversation(before: Conversation | null): Conversation {
  return {
    id: crypto.randomUUID(),
    atMs: Date.now(),
    settings: before?.settings ?? NO_SETTINGS,
    turns: [],
    columns: (before?.columns ?? []).map((column) => ({ ...column, replies: [] })),
  };
}
