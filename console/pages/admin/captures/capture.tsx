/** One captured request with its bodies. */

import { useState } from "react";
import { useLocation } from "wouter";
import { ApiProblem, type ResponseBody } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import type { PageProps } from "../../../page-props.ts";
import { useGatewayOrigin } from "../../../session.tsx";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, Link, LinkButton } from "../../../ui/button.tsx";
import { copyText } from "../../../ui/clipboard.ts";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { TextField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { Icon } from "../../../ui/icon.tsx";
import { EmptyState, Notice } from "../../../ui/notice.tsx";
import { Card, Facts, Page, PageHeader } from "../../../ui/page.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Copy } from "../../../ui/values.tsx";
import { OutcomeBadge } from "../../usage/outcome.tsx";
import { AttemptPart, RequestPart, ResponsePart } from "./capture-parts.tsx";
import { buildCurl, buildExplorerLink, type CaptureDocument } from "./capture-request.ts";
import { DifferenceView } from "./difference-view.tsx";
import "./captures.css";

type Capture = ResponseBody<"admin.captures.read">;

const BACK = "/admin/captures";

export default function CapturePage({ params }: PageProps) {
  const t = useText("adminCaptures").view;
  const id = params.id ?? "";
  const read = useChange("admin.captures.read", { invalidates: ["admin.audit."] });
  const { data, error } = read;
  const isMissing = error instanceof ApiProblem && error.code === "not_found";
  return (
    <Page>
      <PageHeader
        title={t.title}
        back={{ to: BACK, label: t.back }}
        about={<Copy text={id} />}
        actions={data && <Actions capture={data} />}
      />
      {data ? (
        <Viewer capture={data} />
      ) : isMissing ? (
        <EmptyState icon="search" title={t.notFound} actions={<LinkButton to={BACK}>{t.back}</LinkButton>}>
          <p>{t.notFoundText}</p>
        </EmptyState>
      ) : (
        <Gate onOpen={(reason) => read.mutateAsync({ params: { id }, body: { reason } })} />
      )}
    </Page>
  );
}

/** The capture is fetched on a click only: each access is recorded in the audit log. */
function Gate({ onOpen }: { onOpen(reason: string): Promise<unknown> }) {
  const t = useText("adminCaptures").view;
  const form = useForm({ reason: "" }, (values) => onOpen(values.reason.trim()).then(() => {}));
  return (
    <Card>
      <div className="stack wide">
        <Notice title={t.gate}>
          <p>{t.gateText}</p>
        </Notice>
        <Form form={form} submit={t.show}>
          <TextField {...form.bind("reason")} label={t.reason} hint={t.reasonHint} maxLength={200} optional />
        </Form>
      </div>
    </Card>
  );
}

function Actions({ capture }: { capture: Capture }) {
  const t = useText("adminCaptures").view;
  const showToast = useToast();
  const origin = useGatewayOrigin();
  const [isDeleting, setDeleting] = useState(false);
  const { request } = capture.document;
  const link = buildExplorerLink(request);
  return (
    <>
      <Button
        icon="copy"
        onClick={() => void copyText(buildCurl(request, origin)).then(() => showToast(t.curlCopied))}
      >
        {t.curl}
      </Button>
      {link === null ? (
        <Button icon="play" onClick={() => showToast(t.noExplorer, "bad")}>
          {t.explorer}
        </Button>
      ) : (
        <a className="button plain" href={link} target="_blank" rel="noreferrer">
          <Icon name="play" size={16} />
          {t.explorer}
        </a>
      )}
      <Button tone="danger" icon="trash" onClick={() => setDeleting(true)}>
        {t.delete}
      </Button>
      {isDeleting && <DeleteDialog id={capture.request_id} onClose={() => setDeleting(false)} />}
    </>
  );
}

function DeleteDialog({ id, onClose }: { id: string; onClose(): void }) {
  const t = useText("adminCaptures").view;
  const showToast = useToast();
  const [, go] = useLocation();
  const remove = useChange("admin.captures.delete", { invalidates: ["admin.captures.", "usage."] });
  return (
    <ConfirmDialog
      title={t.deleteTitle}
      confirm={t.delete}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { id } });
        showToast(t.deleted);
        go(BACK);
      }}
      onClose={onClose}
    >
      <p>{t.deleteText}</p>
    </ConfirmDialog>
  );
}

function Viewer({ capture }: { capture: Capture }) {
  const t = useText("adminCaptures").view;
  const { request, attempts, response } = capture.document;
  return (
    <>
      <Card>
        <Summary capture={capture} />
      </Card>
      <Tabs
        label={t.tabs}
        tabs={[
          { key: "request", label: t.request, content: <RequestPart request={request} /> },
          ...attempts.map((attempt, i) => ({
            key: `attempt-${i + 1}`,
            label: t.attempt(i + 1, attempt.account),
            content: <AttemptPart attempt={attempt} />,
          })),
          { key: "response", label: t.response, content: <ResponsePart response={response} /> },
          ...differenceTab(t.difference, capture.document),
        ]}
      />
    </>
  );
}

function differenceTab(label: string, { request, attempts }: CaptureDocument) {
  if (attempts.length === 0) return [];
  return [{ key: "difference", label, content: <DifferenceView request={request} attempts={attempts} /> }];
}

function Summary({ capture }: { capture: Capture }) {
  const { columns, view } = useText("adminCaptures");
  const format = useFormat();
  return (
    <Facts
      facts={[
        [columns.at, format.dateTimeExact(capture.at)],
        [
          columns.outcome,
          <OutcomeBadge key="outcome" outcome={capture.outcome} status={capture.status} count={1} />,
        ],
        [
          columns.model,
          <span key="model" className="breakable">
            {capture.model}
          </span>,
        ],
        [
          columns.key,
          <Link key="key" to={`/keys/${capture.key.id}`}>
            {capture.key.name ?? capture.key.id}
          </Link>,
        ],
        [columns.user, capture.user ?? "–"],
        [
          columns.request,
          <Link key="request" to={`/requests/${encodeURIComponent(capture.request_id)}`}>
            {view.toRequest}
          </Link>,
        ],
      ]}
    />
  );
}
