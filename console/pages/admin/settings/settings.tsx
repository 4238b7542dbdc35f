/** The settings of the installation, in tabs. */

import { useSearchParams } from "wouter";
import { useApi } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { AlertSettings } from "./alert-settings.tsx";
import { GeneralSettings } from "./general-settings.tsx";
import { MailSettings } from "./mail-settings.tsx";
import { UsageExportSettings } from "./usage-export-settings.tsx";

export default function SettingsPage() {
  const t = useText("adminSettings");
  const [search] = useSearchParams();
  const settings = useApi("admin.settings.get");
  const { data } = settings;
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      {data === undefined ? (
        <Awaited query={settings} height={300} />
      ) : (
        <Tabs
          label={t.parts}
          first={search.get("part") ?? "general"}
          tabs={[
            { key: "general", label: t.general, content: <GeneralSettings settings={data} /> },
            { key: "mail", label: t.mail, content: <MailSettings settings={data} /> },
            { key: "alerts", label: t.alertsTab, content: <AlertSettings settings={data} /> },
            { key: "export", label: t.exportTab, content: <UsageExportSettings settings={data} /> },
          ]}
        />
      )}
    </Page>
  );
}
