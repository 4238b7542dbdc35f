/** The list of captured requests. */

import { useState } from "react";
import { useApi, useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, LinkButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Card, Page, PageHeader } from "../../../ui/page.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Meter } from "../../../ui/values.tsx";
import { useBytes } from "./bytes.ts";
import { CaptureTable } from "./capture-table.tsx";

const REFRESH_MS = 5_000;
const DAY_MS = 86_400_000;

export default function CapturesPage() {
  const t = useText("adminCaptures");
  const [isClearing, setClearing] = useState(false);
  const captures = useList("admin.captures.list", {}, { refreshMs: REFRESH_MS });
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={t.about}
        actions={
          captures.rows.length > 0 && (
            <Button tone="danger" icon="trash" onClick={() => setClearing(true)}>
              {t.clear.action}
            </Button>
          )
        }
      />
      <Storage />
      <CaptureTable
        label={t.title}
        rows={captures}
        showsKey
        empty={
          <EmptyState
            icon="eye"
            title={t.none.title}
            actions={<LinkButton to="/admin/groups">{t.none.groups}</LinkButton>}
          >
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
      {isClearing && <ClearDialog onClose={() => setClearing(false)} />}
    </Page>
  );
}

function Storage() {
  const t = useText("adminCaptures").storage;
  const format = useFormat();
  const bytes = useBytes();
  const { data } = useApi("admin.captures.storage", {}, { refreshMs: REFRESH_MS });
  if (data === undefined || data.captures === 0) return null;
  const days = data.kept_ms / DAY_MS;
  const kept = Number.isInteger(days) ? t.days(days) : format.duration(data.kept_ms);
  return (
    <Card>
      <Meter
        label={t.used}
        used={data.bytes}
        limit={data.budget_bytes}
        show={bytes}
        note={t.captures(data.captures, kept)}
      />
    </Card>
  );
}

function ClearDialog({ onClose }: { onClose(): void }) {
  const t = useText("adminCaptures").clear;
  const showToast = useToast();
  const clear = useChange("admin.captures.clear", {
    invalidates: ["admin.captures."],
    onDone: ({ deleted }) => showToast(t.done(deleted)),
  });
  return (
    <ConfirmDialog
      title={t.title}
      confirm={t.confirm}
      onConfirm={() => clear.mutateAsync({ query: {} })}
      onClose={onClose}
    >
      <p>{t.text}</p>
    </ConfirmDialog>
  );
}
