/** The state of the request and its result: text, events, pictures or vectors, with timing and cost. */

import { type ReactNode, useState } from "react";
import { lookUpAdvice } from "../../src/public-api/error-guide.ts";
import { useFormat, useText } from "../text/text.tsx";
import { Button } from "../ui/button.tsx";
import { Notice } from "../ui/notice.tsx";
import { Section } from "../ui/page.tsx";
import { type Tab, Tabs } from "../ui/tabs.tsx";
import { Badge, CodeBlock, Copy, Money } from "../ui/values.tsx";
import type { ExplorerOperation } from "./described.ts";
import { parsed } from "./json-value.ts";
import { Marked } from "./marked.tsx";
import type { Report } from "./report.ts";
import type { RequestRunner, RunnerState } from "./request-runner.ts";
import { readVectors } from "./response-text.ts";
import type { Run, RunEvent, RunProblem } from "./run.ts";
import { Vector } from "./vector.tsx";

interface ResultProps {
  operation: ExplorerOperation;
  state: RunnerState;
  runner: RequestRunner;
  onRun(): void;
  onGoOn(responseId: string): void;
}

export function Result({ operation, state, runner, onRun, onGoOn }: ResultProps) {
  const { run, report, isOpen } = state;
  const t = useText("explorer");
  const isRunning = run?.state === "running";
  const goOnFrom = isOpen && run?.state === "done" ? run.responseId : null;
  return (
    <Section title={t.result}>
      <div className="row">
        <Button tone="primary" icon="play" isBusy={isRunning} onClick={onRun}>
          {operation.isSocket ? t.connect : t.run}
        </Button>
        {isRunning && <Button onClick={() => runner.stop()}>{t.stop}</Button>}
        {isOpen && !isRunning && <Button onClick={() => runner.disconnect()}>{t.disconnect}</Button>}
        {goOnFrom !== null && <Button onClick={() => onGoOn(goOnFrom)}>{t.goOn}</Button>}
        <kbd className="soft small">{t.runHint}</kbd>
      </div>
      {run === null ? (
        <p className="soft">{t.notRun}</p>
      ) : (
        <>
          <Facts run={run} report={report} />
          {run.problem !== null && <Problem problem={run.problem} />}
          <Views run={run} />
        </>
      )}
    </Section>
  );
}

function Facts({ run, report }: { run: Run; report: Report | null }) {
  const t = useText("explorer");
  const format = useFormat();
  const ms = (value: number) => `${format.number(Math.round(value))} ms`;
  const facts: [string, ReactNode][] = [
    [
      t.status,
      <Badge key="state" tone={TONES[run.state]}>
        {run.status ?? t.state[run.state]}
      </Badge>,
    ],
  ];
  if (report !== null) facts.push([t.waited, ms(report.waitedMs)]);
  if (run.firstMs !== null && run.events.length > 0) facts.push([t.first, ms(run.firstMs)]);
  if (run.totalMs !== null) facts.push([t.total, ms(run.totalMs)]);
  if (report !== null) {
    const { inputTokens, outputTokens, cost } = report;
    facts.push([t.tokens, t.tokenCounts(format.number(inputTokens), format.number(outputTokens))]);
    facts.push([t.cost, <Money key="cost" value={cost} />]);
  }
  return (
    <dl className="run-facts" aria-live="polite">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {run.requestId !== null && (
        <div>
          <dt>{t.requestId}</dt>
          <dd>
            <Copy text={run.requestId} />
            {report !== null && (
              // In a new tab: this page holds the key in memory only.
              <a href={`/console/requests/${run.requestId}`} target="_blank" rel="noreferrer">
                {t.inspect}
              </a>
            )}
          </dd>
        </div>
      )}
    </dl>
  );
}

const TONES = { running: "accent", done: "good", failed: "bad", stopped: "soft" } as const;

/** The error message of the gateway, and the advice of its guide. */
function Problem({ problem }: { problem: RunProblem }) {
  const t = useText("explorer");
  const guide = lookUpAdvice(problem.code);
  const message = problem.message === "" ? t.ownProblem(problem.code) : problem.message;
  return (
    <Notice tone="bad" title={problem.code === "" ? t.unknownProblem : problem.code} isUrgent>
      <p>{message}</p>
      {guide !== null && (
        <dl className="problem-guide small">
          <dt>{t.why}</dt>
          <dd>
            <Marked text={guide.why} />
          </dd>
          <dt>{t.todo}</dt>
          <dd>
            <Marked text={guide.todo} />
          </dd>
          <dt>{t.again}</dt>
          <dd>{t.retries[guide.retry]}</dd>
        </dl>
      )}
    </Notice>
  );
}

function Views({ run }: { run: Run }) {
  const t = useText("explorer");
  const { pictures } = run;
  const vectors = readVectors(run.response);
  const tabs: Tab[] = [];
  if (pictures.length > 0) {
    tabs.push({ key: "pictures", label: t.resultViews.pictures, content: <Pictures addresses={pictures} /> });
  }
  if (vectors.length > 0) {
    tabs.push({
      key: "vectors",
      label: t.resultViews.vectors,
      content: vectors.map((vector, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a vector is identified by its position.
        <Vector key={i} values={vector} />
      )),
    });
  }
  if (run.text !== "" || run.events.length > 0) {
    tabs.push({
      key: "text",
      label: t.resultViews.text,
      content: (
        <p className="run-text" aria-live="polite">
          {run.text === "" ? <span className="soft">{t.noText}</span> : run.text}
        </p>
      ),
    });
  }
  if (run.events.length > 0) {
    tabs.push({
      key: "events",
      label: t.eventsCount(run.events.length),
      content: <Events events={run.events} />,
    });
  }
  if (run.response !== null) {
    const code = shortened(JSON.stringify(run.response, null, 2));
    tabs.push({
      key: "json",
      label: t.resultViews.json,
      content: <CodeBlock label={t.resultViews.json} code={code} language="json" />,
    });
  }
  if (tabs.length === 0) return null;
  return <Tabs key={tabs[0]?.key} label={t.result} tabs={tabs} />;
}

/** A picture in Base64 is one line of megabytes, so it is shortened. */
function shortened(text: string): string {
  return text.replaceAll(/"([A-Za-z0-9+/=]{400})[A-Za-z0-9+/=]+"/g, '"$1…"');
}

function Events({ events }: { events: readonly RunEvent[] }) {
  return (
    <ol className="run-events">
      {events.map((event, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an event is identified by its position in the stream.
        <EventLine key={i} event={event} />
      ))}
    </ol>
  );
}

/** The content of an event is rendered when it is opened: a stream may have thousands. */
function EventLine({ event }: { event: RunEvent }) {
  const t = useText("explorer");
  const [isOpen, setOpen] = useState(false);
  const name = event.name === "" ? "data" : event.name;
  return (
    <li>
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <code className="breakable">{name}</code>
          <span className="soft small nowrap">{t.eventAt(`${Math.round(event.ms)} ms`)}</span>
        </summary>
        {isOpen && <CodeBlock label={name} code={shortened(pretty(event.data))} language="json" wrap />}
      </details>
    </li>
  );
}

function pretty(data: string): string {
  const value = parsed(data);
  return value === null ? data : JSON.stringify(value, null, 2);
}

function Pictures({ addresses }: { addresses: readonly string[] }) {
  const t = useText("explorer");
  return (
    <div className="row run-pictures">
      {addresses.map((address, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a picture is identified by its position.
        <img key={i} src={address} alt={t.pictureAlt(i + 1)} />
      ))}
    </div>
  );
}
