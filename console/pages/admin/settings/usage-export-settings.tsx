/** The tab with the usage export: whether it is enabled, how to pull the feed, and its webhooks. */

import { useState } from "react";
import { useGatewayOrigin } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { CheckboxField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { CodeBlock } from "../../../ui/values.tsx";
import { webhooksBody } from "./alerts.ts";
import { ExportWebhooks } from "./export-webhooks.tsx";
import { type Settings, useSaveSettings } from "./saving.ts";

type UsageExport = Settings["usage_export"];

export function UsageExportSettings({ settings: { usage_export } }: { settings: Settings }) {
  return (
    <div className="stack wide">
      <EnableExport usageExport={usage_export} />
      {usage_export.enabled && <PullExample />}
      {usage_export.enabled && <ExportWebhooks usageExport={usage_export} />}
    </div>
  );
}

function EnableExport({ usageExport }: { usageExport: UsageExport }) {
  const t = useText("adminSettings").usageExport;
  const kit = useText("kit");
  const save = useSaveSettings();
  const [isStopping, setStopping] = useState(false);
  const saveEnabled = (enabled: boolean) =>
    save({ usage_export: { enabled, webhooks: webhooksBody(usageExport.webhooks) } });
  const form = useForm({ enabled: usageExport.enabled }, async ({ enabled }) => {
    if (usageExport.enabled && !enabled) {
      setStopping(true);
      return;
    }
    await saveEnabled(enabled);
    form.reset({ enabled });
  });
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <Form form={form} submit={kit.save}>
          <CheckboxField {...form.bind("enabled")} label={t.enabled} hint={t.enabledHint} />
        </Form>
      </Card>
      {isStopping && (
        <ConfirmDialog
          title={t.stopTitle}
          confirm={t.stop}
          onClose={() => setStopping(false)}
          onConfirm={async () => {
            await saveEnabled(false);
            form.reset({ enabled: false });
          }}
        >
          <p>{t.stopText}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}

function PullExample() {
  const t = useText("adminSettings").usageExport;
  const origin = useGatewayOrigin();
  return (
    <Section title={t.pull} about={t.pullAbout}>
      <CodeBlock
        code={`curl -i "${origin}/api/admin/usage-export/records?limit=1000" \\\n  -H "Authorization: Bearer $TOKEN"`}
        label={t.pull}
        language="bash"
      />
    </Section>
  );
}
