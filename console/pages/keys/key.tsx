/** One key: limits, usage, examples and its secret. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { TimeSeries } from "../../charts/time-series.tsx";
import { useApi } from "../../data.ts";
import { useLimitsText } from "../../forms/limits.tsx";
import type { PageProps } from "../../page-props.ts";
import { useUser } from "../../session.tsx";
import { useFormat, useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Button, LinkButton } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Card, Facts, Page, PageHeader, Section, Stat, Stats } from "../../ui/page.tsx";
import { Copy, Money, Time } from "../../ui/values.tsx";
import { KeyCaptures } from "../admin/captures/key-captures.tsx";
import { Examples } from "./examples.tsx";
import { EditKeyDialog, RevokeKeyDialog, RotateKeyDialog } from "./key-dialogs.tsx";
import { KeyHint, KeyStatus, RequestCount } from "./key-values.tsx";
import { KeyMeters } from "./meters.tsx";
import "./keys.css";

type KeyDetail = ResponseBody<"keys.get">;

const REFRESH_MS = 5_000;
const DIALOGS = { edit: EditKeyDialog, rotate: RotateKeyDialog, revoke: RevokeKeyDialog };

export default function KeyPage({ params }: PageProps) {
  const t = useText("keys");
  const id = params.id ?? "";
  const found = useApi("keys.get", { params: { id } }, { refreshMs: REFRESH_MS });
  const back = { to: "/keys", label: t.detail.back };
  if (found.data !== undefined) return <KeyDetails detail={found.data} />;
  return (
    <Page>
      <PageHeader title={t.title} back={back} />
      <Awaited query={found} height={320} />
    </Page>
  );
}

function KeyDetails({ detail }: { detail: KeyDetail }) {
  const t = useText("keys");
  const isAdmin = useUser().role === "admin";
  const [open, setOpen] = useState<keyof typeof DIALOGS | null>(null);
  const Dialog = open === null ? null : DIALOGS[open];
  return (
    <Page>
      <PageHeader
        title={detail.name}
        back={{ to: "/keys", label: t.detail.back }}
        about={<KeyStatus status={detail.status} />}
        actions={
          detail.status !== "revoked" && (
            <>
              {detail.suspension === null && (
                <>
                  <Button icon="edit" onClick={() => setOpen("edit")}>
                    {t.edit.action}
                  </Button>
                  {!detail.is_tool && (
                    <Button icon="refresh" onClick={() => setOpen("rotate")}>
                      {t.rotate.action}
                    </Button>
                  )}
                </>
              )}
              <Button tone="danger" icon="trash" onClick={() => setOpen("revoke")}>
                {t.revoke.action}
              </Button>
            </>
          )
        }
      />
      {detail.suspension !== null && (
        <Notice tone="warn" title={t.detail.suspended.title}>
          {detail.suspension.group === null
            ? t.detail.suspended.person
            : t.detail.suspended.group(detail.suspension.group)}
        </Notice>
      )}
      <Stats>
        <Stat
          label={t.detail.requests}
          value={<RequestCount keyId={detail.id} range="month" value={detail.usage.requests} />}
        />
        <Stat label={t.detail.spend} value={<Money value={detail.usage.charged} />} />
        <Stat
          label={t.detail.lastDay}
          value={<RequestCount keyId={detail.id} range="day" value={detail.requests_last_day} />}
        />
        <Stat label={t.detail.lastUsed} value={<Time at={detail.last_used_at} />} />
      </Stats>
      <ChartSection detail={detail} />
      <Section title={t.detail.limits} about={t.detail.limitsAbout}>
        <RemainingLimits detail={detail} />
      </Section>
      <FactsSection detail={detail} />
      {isAdmin && <KeyCaptures keyId={detail.id} isActive={detail.status !== "revoked"} />}
      {detail.status === "active" && <Use keyId={detail.id} />}
      {Dialog && <Dialog shown={detail} onClose={() => setOpen(null)} />}
    </Page>
  );
}

function ChartSection({ detail: { id, days } }: { detail: KeyDetail }) {
  const t = useText("keys").detail;
  return (
    <Section
      title={t.chart}
      about={t.chartAbout}
      actions={
        <LinkButton to={`/usage?key=${encodeURIComponent(id)}`} icon="chart" small>
          {t.seeUsage}
        </LinkButton>
      }
    >
      <Card>
        <DayChart days={days} />
      </Card>
    </Section>
  );
}

function RemainingLimits({ detail: { status, meters } }: { detail: KeyDetail }) {
  const t = useText("keys").detail;
  if (status !== "active") return <Notice tone="info">{t.notWorking}</Notice>;
  if (meters.length === 0) return <Notice tone="info">{t.noLimits}</Notice>;
  return (
    <Card>
      <KeyMeters meters={meters} />
    </Card>
  );
}

function FactsSection({ detail }: { detail: KeyDetail }) {
  const t = useText("keys").detail;
  const id = encodeURIComponent(detail.id);
  return (
    <Section
      title={t.facts}
      actions={
        <>
          <LinkButton to={`/models?key=${id}`} icon="box" small>
            {t.models}
          </LinkButton>
          <LinkButton to={`/models?why=${id}`} icon="help" small>
            {t.askWhy}
          </LinkButton>
        </>
      }
    >
      <Card>
        <KeyFacts shown={detail} />
      </Card>
    </Section>
  );
}

function DayChart({ days }: { days: KeyDetail["days"] }) {
  const t = useText("keys").detail;
  const format = useFormat();
  return (
    <TimeSeries
      label={t.chart}
      kind="bars"
      height={180}
      times={days.map(({ at }) => at)}
      series={[
        { key: "served", label: t.served, values: days.map(({ requests, failed }) => requests - failed) },
        { key: "failed", label: t.failed, values: days.map(({ failed }) => failed) },
        { key: "refused", label: t.refused, values: days.map(({ refused }) => refused) },
      ]}
      show={format.compact}
      showTime={format.utcDay}
    />
  );
}

function KeyFacts({ shown }: { shown: KeyDetail }) {
  const t = useText("keys").detail;
  const kit = useText("kit");
  const format = useFormat();
  const limits = useLimitsText()(shown.limits);
  const policies = useText("adminPolicies");
  const { key: fallback } = useText("fallback");
  const { former_secrets: former } = shown;
  return (
    <Facts
      facts={[
        [t.id, <Copy key="id" text={shown.public_id} />],
        [t.secret, <KeyHint key="secret" {...shown} />],
        ...(former.length === 0
          ? []
          : [
              [
                t.former,
                former
                  .map(({ last4, works_until_at: until }) => t.formerUntil(last4, format.dateTime(until)))
                  .join("; "),
              ] as const,
            ]),
        [
          t.group,
          <span key="group" className="breakable">
            {shown.group}
          </span>,
        ],
        [t.created, <Time key="created" at={shown.created_at} exact />],
        [t.expires, <Time key="expires" at={shown.expires_at} exact />],
        ...(shown.revoked_at === null
          ? []
          : [
              [
                shown.suspension === null ? t.revoked : t.suspended.since,
                <Time key="revoked" at={shown.revoked_at} exact />,
              ] as const,
            ]),
        [t.own, limits ?? kit.none],
        ...(shown.fallback === "allow" ? [] : [[fallback.fact, fallback.denied] as const]),
        ...(shown.request_policy === null ? [] : [[policies.ofKey, shown.request_policy] as const]),
      ]}
    />
  );
}

function Use({ keyId }: { keyId: string }) {
  const t = useText("keys").use;
  const models = useApi("models.list", { query: { key: keyId, limit: 200 } });
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        {models.data === undefined ? (
          <Awaited query={models} height={180} />
        ) : (
          <Examples models={models.data.data.toSorted((a, b) => Number(isDown(a)) - Number(isDown(b)))} />
        )}
      </Card>
    </Section>
  );
}

/** The example uses a model that is available now. */
function isDown({ now }: ResponseBody<"models.list">["data"][number]): boolean {
  return now.status === "unavailable";
}
