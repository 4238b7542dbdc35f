/** One request: outcome, cost, timeline and attempts. */

import { ApiProblem } from "../../api.ts";
import { Timeline, type TimelineSpan } from "../../charts/small.tsx";
import { useApi } from "../../data.ts";
import type { PageProps } from "../../page-props.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Link, LinkButton } from "../../ui/button.tsx";
import { EmptyState, Notice } from "../../ui/notice.tsx";
import { Card, Facts, Page, PageHeader, Section, Stat, Stats } from "../../ui/page.tsx";
import { Table } from "../../ui/table.tsx";
import { Copy, Count, Money } from "../../ui/values.tsx";
import { PolicyChanges } from "../admin/policies/policy-changes.tsx";
import { OutcomeBadge } from "../usage/outcome.tsx";
import type { Inspection } from "./inspection.ts";
import { PriceCard } from "./price.tsx";

export default function RequestPage({ params }: PageProps) {
  const { request: t } = useText("usage");
  const id = params.id ?? "";
  const query = useApi("usage.request", { params: { id } });
  const { data, error } = query;
  return (
    <Page>
      <PageHeader
        title={t.title}
        back={{ to: "/usage", label: t.back }}
        about={<Copy text={data?.id ?? id} />}
      />
      {data ? (
        <Inspector request={data} />
      ) : error instanceof ApiProblem && error.code === "not_found" ? (
        <EmptyState icon="search" title={t.notFound} actions={<LinkButton to="/usage">{t.back}</LinkButton>}>
          <p>{t.notFoundText}</p>
        </EmptyState>
      ) : (
        <Awaited query={query} height={320} />
      )}
    </Page>
  );
}

function Inspector({ request }: { request: Inspection }) {
  const { request: t, stats, requests } = useText("usage");
  const policies = useText("adminPolicies").changes;
  const format = useFormat();
  return (
    <>
      <Stats>
        <Stat
          label={requests.outcome}
          value={
            <OutcomeBadge outcome={request.outcome} status={request.status} count={request.request_count} />
          }
          note={request.request_count > 1 ? t.counted(request.request_count) : t.attempts(request.attempts)}
        />
        <Stat
          label={stats.firstToken}
          value={request.first_byte_ms === null ? "–" : format.duration(request.first_byte_ms)}
          note={stats.whole(format.duration(request.duration_ms))}
        />
        <Stat
          label={stats.tokens}
          value={<Count value={request.input_tokens + request.output_tokens} />}
          note={stats.inOut(format.compact(request.input_tokens), format.compact(request.output_tokens))}
        />
        <Stat
          label={stats.cost}
          value={<Money value={request.cost} />}
          note={stats.charged(format.money(request.charged))}
        />
      </Stats>
      <Why request={request} />
      {request.is_captured && <CaptureLink id={request.id} />}
      <Section title={t.course} about={t.courseAbout(format.dateTimeExact(request.started_at))}>
        <Card>
          <RequestTimeline request={request} />
        </Card>
      </Section>
      <FallbackSteps request={request} />
      {request.policy_changes.length > 0 && (
        <Section title={policies.title} about={policies.about}>
          <Card>
            <PolicyChanges changes={request.policy_changes} />
          </Card>
        </Section>
      )}
      <div className="columns">
        <Section title={t.tokens}>
          <Card>
            <TokenFacts request={request} />
          </Card>
        </Section>
        <Section title={t.price}>
          <PriceCard request={request} />
        </Section>
      </div>
      <Section title={t.details}>
        <Card>
          <Details request={request} />
        </Card>
      </Section>
      {request.candidates && request.candidates.length > 0 && <Candidates candidates={request.candidates} />}
    </>
  );
}

type FallbackStep = Inspection["fallback_steps"][number];

/** What became of each step, for a request that has left the first one. */
function FallbackSteps({ request }: { request: Inspection }) {
  const { request: t, why: names, reasons } = useText("fallback");
  const format = useFormat();
  const { fallback, fallback_steps: steps } = request;
  if (steps.length === 0) return null;
  const known = [reasons, t.skips];
  const group = fallback?.requested_group ?? steps[0]?.group ?? "";
  const model = fallback?.requested_model ?? steps[0]?.model ?? "";
  return (
    <Section title={t.title} about={t.about(group, model)}>
      <Table<FallbackStep>
        label={t.title}
        rows={steps}
        rowKey={({ step, at_ms: atMs, result }) => `${step} ${atMs} ${result}`}
        empty={null}
        columns={[
          { key: "step", header: names.number, cell: ({ step }) => (step === 0 ? t.first : step) },
          { key: "group", header: names.group, kind: "primary", cell: (one) => one.group },
          { key: "model", header: names.model, cell: (one) => <code>{one.model}</code> },
          { key: "result", header: t.result, cell: ({ result }) => t.results[result] },
          {
            key: "reason",
            header: t.reason,
            cell: ({ reason }) => (reason === null ? "–" : findReason(known, reason)),
          },
          { key: "at", header: t.at, kind: "end", cell: ({ at_ms: atMs }) => format.duration(atMs) },
          {
            key: "cost",
            header: t.forecast,
            kind: "end",
            cell: ({ expected_cost: usd }) => (usd === null ? "–" : <Money value={usd} />),
          },
        ]}
      />
    </Section>
  );
}

function findReason(texts: readonly Readonly<Record<string, string>>[], reason: string): string {
  return texts.map((known) => known[reason]).find((text) => text !== undefined) ?? reason;
}

/** For administrators. */
function CaptureLink({ id }: { id: string }) {
  const t = useText("adminCaptures").request;
  return (
    <Notice>
      <div className="row apart">
        <span>{t.text}</span>
        <LinkButton to={`/admin/captures/${encodeURIComponent(id)}`} icon="eye" small>
          {t.open}
        </LinkButton>
      </div>
    </Notice>
  );
}

/** A completed request needs no explanation. */
function Why({ request }: { request: Inspection }) {
  const { request: t, outcomeTexts } = useText("usage");
  const { outcome, rejection, error_code: code } = request;
  if (outcome === "completed") return null;
  return (
    <Notice tone={outcome === "failed" || outcome === "upstream_cut" ? "bad" : "warn"} title={t.why}>
      <p>{outcomeTexts[outcome]}</p>
      {rejection !== null && (
        <p>
          {t.clientMessage} <strong>{rejection}</strong>
        </p>
      )}
      {code !== null && (
        <p className="small">
          <code>{code}</code> · <a href="/docs/errors">{t.errorGuide}</a>
        </p>
      )}
    </Notice>
  );
}

function RequestTimeline({ request }: { request: Inspection }) {
  const { request: t } = useText("usage");
  const format = useFormat();
  const spans = request.steps.map((step, i) => ({
    key: String(i),
    fromMs: step.from_ms,
    toMs: step.to_ms,
    ...stepText(step, request.attempts > 0, t),
  }));
  return <Timeline label={t.course} durationMs={request.duration_ms} spans={spans} show={format.duration} />;
}

type Step = Inspection["steps"][number];
type Texts = ReturnType<typeof useText<"usage">>["request"];

function stepText(step: Step, isAdmitted: boolean, t: Texts): Pick<TimelineSpan, "label" | "tone" | "note"> {
  switch (step.kind) {
    case "checks":
      return { tone: "soft", label: isAdmitted ? t.steps.checks : t.steps.rejectedChecks };
    case "wait":
      return { tone: "warn", label: t.steps.wait };
    case "response":
      return { tone: "good", label: t.steps.response };
    case "attempt":
      return {
        ...(step.failure === null ? {} : { tone: "bad" }),
        label: t.steps.attempt(step.number ?? 1),
        note: attemptText(step, t),
      };
  }
}

function attemptText(step: Step, t: Texts): string {
  const parts = [
    step.account,
    step.upstream_model,
    step.failure === null ? t.served : failureText(step.failure, t),
    step.status === null || step.failure === null ? null : t.status(step.status),
    step.reason,
  ];
  return parts.filter(Boolean).join(" · ");
}

function failureText(failure: string, { failures }: Texts): string {
  const known: Readonly<Record<string, string>> = failures;
  return known[failure] ?? failure;
}

function TokenFacts({ request }: { request: Inspection }) {
  const { request: t } = useText("usage");
  const { tokenFacts: names } = t;
  const format = useFormat();
  const some = (label: string, count: number) =>
    count === 0 ? [] : [[label, format.number(count)] as const];
  return (
    <Facts
      facts={[
        [names.input, format.number(request.input_tokens)],
        ...some(names.cached, request.cached_tokens),
        ...some(names.cacheWrite, request.cache_write_tokens),
        [names.output, format.number(request.output_tokens)],
        ...some(names.reasoning, request.reasoning_tokens),
        ...some(names.images, request.images),
        [names.source, t.sources[request.usage_source]],
      ]}
    />
  );
}

function Details({ request }: { request: Inspection }) {
  const { request: t } = useText("usage");
  const kit = useText("kit");
  const format = useFormat();
  const { facts: names } = t;
  const some = (label: string, value: string | null | undefined) =>
    value === null || value === undefined ? [] : [[label, value] as const];
  return (
    <Facts
      facts={[
        [names.started, format.dateTimeExact(request.started_at)],
        [names.ended, format.dateTimeExact(request.at)],
        [
          names.key,
          <Link key="key" to={`/keys/${request.key.id}`}>
            {request.key.name ?? request.key.id}
          </Link>,
        ],
        ...some(names.group, request.group),
        ...some(names.user, request.user),
        [names.model, request.model],
        [names.endpoint, request.endpoint],
        [names.stream, request.stream ? kit.yes : kit.no],
        ...some(names.responseId, request.response_id),
        ...some(names.account, request.account),
        ...some(names.upstreamModel, request.upstream_model),
        ...some(names.upstreamRequestId, request.upstream_request_id),
        ...traceFact(names.traceId, request),
      ]}
    />
  );
}

/** With a link if the operator's tracing tool is configured. */
function traceFact(label: string, { trace_id: id, trace_url: url }: Inspection) {
  if (id === null || id === undefined) return [];
  const value =
    url === null || url === undefined ? (
      <Copy key="trace" text={id} />
    ) : (
      <a key="trace" href={url} target="_blank" rel="noreferrer">
        {id}
      </a>
    );
  return [[label, value] as const];
}

type Candidate = NonNullable<Inspection["candidates"]>[number];

function Candidates({ candidates }: { candidates: readonly Candidate[] }) {
  const { request: t } = useText("usage");
  const { candidateColumns: names } = t;
  const format = useFormat();
  return (
    <Section title={t.candidates} about={t.candidatesAbout}>
      <Table<Candidate>
        label={t.candidates}
        rows={candidates}
        rowKey={({ account, upstream_model }) => `${account} ${upstream_model}`}
        empty={null}
        columns={[
          { key: "account", header: names.account, kind: "primary", cell: ({ account }) => account },
          { key: "model", header: names.model, cell: (one) => one.upstream_model },
          { key: "reason", header: names.reason, cell: ({ reason }) => reason ?? t.eligible },
          {
            key: "priority",
            header: names.priority,
            kind: "end",
            cell: (one) => format.number(one.priority),
          },
          {
            key: "score",
            header: names.score,
            kind: "end",
            cell: ({ score }) => (score === null ? "–" : score.toPrecision(3)),
          },
        ]}
      />
    </Section>
  );
}
