/** What a key of the group would see with the current values of the form, saved or not. */

import { useEffect, useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useApi } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Icon } from "../../../ui/icon.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Skeleton } from "../../../ui/page.tsx";
import { Badge } from "../../../ui/values.tsx";
import { usePriceText } from "../policy/price-text.ts";
import type { GroupDocument } from "./group-values.ts";

type Previewed = NonNullable<ResponseBody<"admin.groups.preview">["models"]>[number];

const SETTLED_MS = 350;
/** A new group has a preview before it has a name. */
const UNNAMED = "new group";

export function GroupPreview({ document }: { document: GroupDocument }) {
  const t = useText("adminGroups");
  const settled = useSettled(document);
  const body = settled.name.trim() === "" ? { ...settled, name: UNNAMED } : settled;
  const preview = useApi("admin.groups.preview", { body }, { keepPrevious: true });
  const models = preview.data?.models;
  const problems = preview.data?.problems ?? [];
  const seen = models?.filter(({ listed }) => listed) ?? [];
  const unseen = models?.filter(({ listed }) => !listed) ?? [];
  return (
    <aside
      className="group-preview"
      aria-labelledby="group-preview-title"
      aria-busy={preview.isFetching}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
      tabIndex={0}
    >
      <h2 id="group-preview-title">{t.preview.title}</h2>
      <p className="soft small">{t.preview.about}</p>
      {preview.data === undefined && <Skeleton height={80} />}
      {models === null && <Notice tone="warn">{t.preview.tooWrong}</Notice>}
      {models && models.length === 0 && <p className="soft">{t.preview.empty}</p>}
      {seen.length > 0 && (
        <ul>
          {seen.map((model) => (
            <SeenModel key={model.id} model={model} />
          ))}
        </ul>
      )}
      {unseen.length > 0 && (
        <>
          <h3>{t.preview.unseen}</h3>
          <ul>
            {unseen.map((model) => (
              <li key={model.id}>
                <code className="breakable">{model.id}</code>
                <Shortcomings model={model} />
              </li>
            ))}
          </ul>
        </>
      )}
      {models === null &&
        problems.map(({ field, message }) => (
          <p key={`${field} ${message}`} className="small breakable">
            <code>{field}</code> {message}
          </p>
        ))}
    </aside>
  );
}

function SeenModel({ model }: { model: Previewed }) {
  const t = useText("adminGroups");
  const policy = useText("policy");
  const format = useFormat();
  const priceText = usePriceText();
  const { price } = model;
  return (
    <li>
      <code className="breakable">{model.id}</code>
      <div className="row small">
        {model.interfaces.map((name) => (
          <Badge key={name} tone="plain">
            {policy.interfaces[name]}
          </Badge>
        ))}
      </div>
      <div className="small soft">
        {price === null ? t.preview.noPrice : priceText({ ...price.tokens, ...readUnitPrices(price) })}
        {model.price_source && ` · ${policy.sources[model.price_source.source]}`}
        {model.price_source?.listed && ` (${model.price_source.listed.date})`}
      </div>
      <div className="small soft">
        {t.preview.servedBy(format.list(model.accounts.map(({ name }) => name)))}
        {model.context_tokens !== null && ` · ${t.preview.context(format.compact(model.context_tokens))}`}
      </div>
      <Shortcomings model={model} />
    </li>
  );
}

function readUnitPrices({ image, request }: NonNullable<Previewed["price"]>) {
  return { image, request };
}

function Shortcomings({ model }: { model: Previewed }) {
  const policy = useText("policy");
  const format = useFormat();
  return (
    <>
      {model.shortcomings.map(({ kind, interfaces }) => (
        <div key={kind} className="small group-shortcoming">
          <Icon name="alert" size={14} />
          {kind === "unsupported_interface"
            ? policy.shortcomings.unsupported_interface(
                format.list(interfaces.map((name) => policy.interfaces[name])),
              )
            : policy.shortcomings[kind]}
        </div>
      ))}
    </>
  );
}

/** Fetched a moment after the last change, not at every key press. */
function useSettled<Value>(value: Value): Value {
  const [settled, setSettled] = useState(value);
  const text = JSON.stringify(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: equal text is an equal value.
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
