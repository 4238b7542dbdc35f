/** The request of one reply as code. */

import { useGatewayOrigin } from "../../session.tsx";
import { buildSnippets } from "../../snippets/snippets.ts";
import { useText } from "../../text/text.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { CodeBlock } from "../../ui/values.tsx";
import type { Column, Conversation } from "./conversation.ts";
import { DIALECTS } from "./dialects.ts";
import { buildBody, type PlaygroundModel } from "./playground-session.ts";

interface CodeDialogProps {
  conversation: Conversation;
  column: Column;
  turnIndex: number;
  model: PlaygroundModel | undefined;
  onClose(): void;
}

export function CodeDialog({ conversation, column, turnIndex, model, onClose }: CodeDialogProps) {
  const t = useText("playground");
  const baseUrl = useGatewayOrigin();
  const { settings, turns } = conversation;
  const body = buildBody(turns, column, { model, settings, turnIndex });
  if (model === undefined || body === null) return null;
  const { path } = DIALECTS[model.interface];
  const short = shortenImages(body);
  const snippets = buildSnippets({ baseUrl, method: "POST", path, isSocket: false, body: short, files: [] });
  const hasImages = turns.some(({ images }) => images.length > 0);
  return (
    <Dialog wide title={t.codeTitle(model.id)} onClose={onClose}>
      <div className="stack">
        <p>{t.codeAbout}</p>
        {hasImages && <Notice tone="info">{t.codeImages}</Notice>}
        <Tabs
          label={t.code}
          tabs={snippets
            .filter(({ id }) => id !== "codex")
            .map(({ id, label, language, code }) => ({
              key: id,
              label,
              content: <CodeBlock label={label} code={code} language={language} />,
            }))}
        />
      </div>
    </Dialog>
  );
}

const SHOWN_IMAGE_CHARS = 64;

/** An image has megabytes, which no one reads in an example. */
function shortenImages(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return JSON.parse(JSON.stringify(body), (name, value: unknown) =>
    (name === "url" || name === "image_url" || name === "data") && typeof value === "string"
      ? value.slice(0, SHOWN_IMAGE_CHARS)
      : value,
  );
}
