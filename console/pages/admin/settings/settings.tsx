import { useSearchParams } from "wouter";
import { useApi } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { ProblemNotice } from "../../../ui/notice.tsx";
import { Page, PageHeader, Skeleton } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { AlertSettings } from "./alert-settings.tsx";
import { GeneralSettings } from "./general-settings.tsx";
import { MailSettings } from "./mail-settings.tsx";

export default function SettingsPage() {
  const t = useText("adminSettings");
  const [search] = useSearchParams();
  const { data, error } = useApi("admin.settings.get");
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      {error && <ProblemNotice error={error} />}
      {!data && !error && <Skeleton width="100%" height={300} />}
      {data && (
        <Tabs
          label={t.parts}
          first={search.get("part") ?? "general"}
          tabs={[
            { key: "general", label: t.general, content: <GeneralSettings settings={data} /> },
            { key: "mail", label: t.mail, content: <MailSettings settings={data} /> },
            { key: "alerts", label: t.alertsTab, content: <AlertSettings settings={data} /> },
          ]}
        />
      )}
    </Page>
  );
}
