/** Connects a tool in three steps: a key, the settings of the tool, and its first request. */

import { useState } from "react";
import { useSearch } from "wouter";
import { useApi } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Page, PageHeader, Section } from "../../ui/page.tsx";
import { type ChosenKey, KeyStep } from "./key-step.tsx";
import { RequestStep } from "./request-step.tsx";
import { ToolStep } from "./tool-step.tsx";

const MODELS_LISTED = 200;

export default function ConnectPage() {
  const t = useText("connect");
  const search = new URLSearchParams(useSearch());
  const wanted = { key: search.get("key"), group: search.get("group") };
  const [chosen, setChosen] = useState<ChosenKey | null>(null);
  const models = useApi(
    "models.list",
    { query: { key: chosen?.id ?? "", limit: MODELS_LISTED } },
    { enabled: chosen !== null },
  );
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      <Section title={t.steps.key}>
        <KeyStep wanted={wanted} chosen={chosen} onChoose={setChosen} />
      </Section>
      {chosen !== null && (
        <>
          <Section title={t.steps.tool} about={t.variableAbout}>
            <ToolStep models={models} />
          </Section>
          <Section title={t.steps.request}>
            <RequestStep key={chosen.id} chosen={chosen} />
          </Section>
        </>
      )}
    </Page>
  );
}
