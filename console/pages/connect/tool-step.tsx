/** The settings of each tool, for a model that the key can call. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import type { ApiQuery } from "../../data.ts";
import { useGatewayOrigin } from "../../session.tsx";
import { environment } from "../../snippets/example-request.ts";
import { findGuideInterface, TOOL_GUIDES, type ToolId } from "../../snippets/tool-guides.ts";
import { useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { SelectField } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Card } from "../../ui/page.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { CodeBlock } from "../../ui/values.tsx";

type Model = ResponseBody<"models.list">["data"][number];

export function ToolStep({ models }: { models: ApiQuery<ResponseBody<"models.list">> }) {
  const t = useText("connect");
  if (models.data === undefined) return <Awaited query={models} height={240} />;
  const offered = models.data.data;
  return (
    <Card>
      <CodeBlock label={t.variable} code={environment} language="bash" />
      <Tabs
        label={t.steps.tool}
        tabs={TOOL_GUIDES.map(({ id, label }) => ({
          key: id,
          label,
          content: <Guide key={id} id={id} offered={offered} />,
        }))}
      />
    </Card>
  );
}

function Guide({ id, offered }: { id: ToolId; offered: readonly Model[] }) {
  const t = useText("connect");
  const origin = useGatewayOrigin();
  const [chosen, setChosen] = useState("");
  const guide = TOOL_GUIDES.find((one) => one.id === id) ?? TOOL_GUIDES[0];
  const usable = offered.filter((model) => findGuideInterface(guide, model) !== undefined);
  const model = usable.find((one) => one.id === chosen) ?? usable[0];
  if (model === undefined) return <Notice tone="info">{t.noModel(guide.interfaces.join(", "))}</Notice>;
  return (
    <div className="stack">
      <p>{t.tools[id]}</p>
      {usable.length > 1 && (
        <SelectField
          name="model"
          label={t.model}
          value={model.id}
          choices={usable.map((one) => ({ value: one.id, label: one.id }))}
          onChange={setChosen}
        />
      )}
      {guide.write({ origin, model }).map(({ place, code, language }) => (
        <div key={code} className="stack">
          {place !== null && <p className="small soft mono">{place}</p>}
          <CodeBlock label={place ?? guide.label} code={code} language={language} />
        </div>
      ))}
    </div>
  );
}
