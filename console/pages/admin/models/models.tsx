/** The list of public models. */

import { useText } from "../../../text/text.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { ModelList } from "./model-list.tsx";
import { PriceLists } from "./price-lists.tsx";

export default function ModelsPage() {
  const t = useText("adminModels");
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      <Tabs
        label={t.title}
        tabs={[
          { key: "models", label: t.tabs.models, content: <ModelList /> },
          { key: "lists", label: t.tabs.lists, content: <PriceLists /> },
        ]}
      />
    </Page>
  );
}
