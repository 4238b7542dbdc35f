/** Calls one to four models side by side, as any client does, with a temporary secret of a key. */

import { useEffect, useMemo, useState } from "react";
import { useSearch } from "wouter";
import type { ResponseBody } from "../../api.ts";
import { useApi } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Button } from "../../ui/button.tsx";
import { SelectField } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page, PageHeader } from "../../ui/page.tsx";
import { Composer } from "./composer.tsx";
import { COLUMNS_MAX, type Column, type Conversation } from "./conversation.ts";
import { ConversationsDialog } from "./conversations-dialog.tsx";
import { chooseInterface } from "./dialects.ts";
import { ModelBar } from "./model-bar.tsx";
import { NoKey } from "./no-key.tsx";
import { OptionFields } from "./option-fields.tsx";
import type { PlaygroundModel } from "./playground-session.ts";
import { parseTools } from "./tools.ts";
import { TurnView } from "./turn-view.tsx";
import { type Playground, usePlayground } from "./use-playground.ts";
import "./playground.css";

type OwnKey = ResponseBody<"keys.list">["data"][number];

const KEYS_LISTED = 100;
const MODELS_LISTED = 200;

export default function PlaygroundPage() {
  const t = useText("playground");
  const playground = usePlayground();
  const [isListOpen, setListOpen] = useState(false);
  // The page that created a group links here with its name.
  const group = new URLSearchParams(useSearch()).get("group");
  const keys = useApi("keys.list", { query: { limit: KEYS_LISTED } });
  const usable = keys.data?.data.filter((key) => key.status === "active" && (key.group === group || !group));
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={t.about}
        actions={
          <>
            <Button icon="history" onClick={() => setListOpen(true)}>
              {t.conversations}
            </Button>
            <Button icon="add" isNew onClick={() => playground.open(null)}>
              {t.create}
            </Button>
          </>
        }
      />
      {usable === undefined ? (
        <Awaited query={keys} height={320} />
      ) : usable.length === 0 ? (
        <NoKey wanted={group} />
      ) : (
        <Workbench playground={playground} keys={usable} />
      )}
      {isListOpen && <ConversationsDialog playground={playground} onClose={() => setListOpen(false)} />}
    </Page>
  );
}

function Workbench({ playground, keys }: { playground: Playground; keys: readonly OwnKey[] }) {
  const t = useText("playground");
  const { session, conversation } = playground;
  const wanted = new URLSearchParams(useSearch()).get("key");
  const [chosen, setKeyId] = useState(wanted);
  const keyId = (keys.find(({ id }) => id === chosen) ?? keys[0])?.id ?? "";
  const query = useApi("models.list", { query: { key: keyId, limit: MODELS_LISTED } });
  const models = useMemo(() => listModels(query.data?.data ?? []), [query.data]);
  useOfferedModels(playground, models);
  const { settings, turns, columns } = conversation;
  const lastTurn = turns.length - 1;
  const isStreaming = columns.some(({ replies }) => replies[lastTurn]?.state === "streaming");
  const areToolsValid = parseTools(settings.tools) !== null;
  if (query.data === undefined) return <Awaited query={query} height={320} />;
  return (
    <div className="stack wide">
      <div className="playground-bar">
        <SelectField
          name="key"
          label={t.key}
          value={keyId}
          choices={keys.map(({ id, name, group }) => ({ value: id, label: t.keyChoice(name, group) }))}
          onChange={setKeyId}
        />
        <ModelBar
          columns={columns}
          models={[...models.keys()]}
          columnsMax={COLUMNS_MAX}
          onChange={(next) => session.edit({ columns: next })}
        />
      </div>
      <OptionFields
        settings={settings}
        areToolsValid={areToolsValid}
        onChange={(next) => session.edit({ settings: next })}
      />
      {models.size === 0 && <Notice tone="info">{t.noModel}</Notice>}
      {turns.map((turn, index) => (
        <TurnView
          // biome-ignore lint/suspicious/noArrayIndexKey: turns are only added at the end.
          key={`${conversation.id} ${index}`}
          conversation={conversation}
          turn={turn}
          index={index}
          models={models}
        />
      ))}
      {models.size > 0 && (
        <Composer
          key={conversation.id}
          isFirst={turns.length === 0}
          isStreaming={isStreaming}
          isBlocked={!areToolsValid}
          isToolResult={columns.some(({ replies }) => (replies[lastTurn]?.toolCalls.length ?? 0) > 0)}
          onSend={(turn) => void session.send(turn, keyId, models)}
          onStop={() => session.stop()}
          onRepeat={() => void session.repeat(keyId, models)}
        />
      )}
    </div>
  );
}

function listModels(offered: ResponseBody<"models.list">["data"]): ReadonlyMap<string, PlaygroundModel> {
  const models = new Map<string, PlaygroundModel>();
  // A model that is available now is offered first.
  const sorted = offered.toSorted((a, b) => Number(isDown(a)) - Number(isDown(b)));
  for (const model of sorted) {
    const chosen = chooseInterface(model);
    if (chosen === null) continue;
    models.set(model.id, { id: model.id, interface: chosen, outputTokensMax: model.max_output_tokens });
  }
  return models;
}

function isDown({ now }: ResponseBody<"models.list">["data"][number]): boolean {
  return now.status === "unavailable";
}

/** There is at least one column, and each has a model that the key can call. */
function useOfferedModels(
  { session, conversation }: Playground,
  models: ReadonlyMap<string, PlaygroundModel>,
): void {
  const { columns } = conversation;
  useEffect(() => {
    const [first] = models.keys();
    if (first === undefined) return;
    const fixed = fixColumns(columns, models, first);
    if (fixed !== columns) session.edit({ columns: fixed });
  }, [session, columns, models]);
}

function fixColumns(
  columns: Conversation["columns"],
  models: ReadonlyMap<string, PlaygroundModel>,
  first: string,
): readonly Column[] {
  if (columns.length === 0) return [{ id: crypto.randomUUID(), model: first, replies: [] }];
  if (columns.every(({ model }) => models.has(model))) return columns;
  return columns.map((column) => (models.has(column.model) ? column : { ...column, model: first }));
}
