/** Messages in place: hints, warnings, problems, empty states. */

import type { ReactNode } from "react";
import { ApiProblem } from "../api.ts";
import { useText } from "../text/text.tsx";
import { Button } from "./button.tsx";
import { classes } from "./class.ts";
import { Icon, type IconName } from "./icon.tsx";

export type Tone = "info" | "good" | "warn" | "bad";

const ICONS: Readonly<Record<Tone, IconName>> = { info: "info", good: "check", warn: "alert", bad: "alert" };

interface NoticeProps {
  tone?: Tone;
  title?: string;
  children?: ReactNode;
  /** Read aloud as soon as it is there. */
  isUrgent?: boolean;
}

export function Notice({ tone = "info", title, children, isUrgent }: NoticeProps) {
  return (
    <div className={classes("notice", tone)} role={isUrgent ? "alert" : undefined}>
      <Icon name={ICONS[tone]} />
      <div>
        {title !== undefined && <strong>{title}</strong>}
        {children}
      </div>
    </div>
  );
}

interface ProblemNoticeProps {
  error: unknown;
  /** Replaces the message of the API. */
  lines?: readonly string[];
  onRetry?: () => void;
}

/** Shows the message of the API, which names the problem and what to do. */
export function ProblemNotice({ error, lines, onRetry }: ProblemNoticeProps) {
  const t = useText("kit");
  const explain = useExplain();
  const requestId = error instanceof ApiProblem ? error.requestId : null;
  return (
    <Notice tone="bad" title={t.problem.title} isUrgent>
      {(lines ?? explain(error).split("\n")).map((line) => (
        <p key={line}>{line}</p>
      ))}
      {requestId !== null && <p className="small soft mono">{t.problem.requestId(requestId)}</p>}
      {onRetry && (
        <div>
          <Button small icon="refresh" onClick={onRetry}>
            {t.retry}
          </Button>
        </div>
      )}
    </Notice>
  );
}

/** The last sentence of some messages names an operation of the API; the console has a page for it. */
const FOR_PROGRAMS = / GET \/api\/\S+ lists them\.$/;

/** The message to show. `hasTyped`: if the gateway is unreachable, it adds that the typed values are kept. */
export function useExplain(): (error: unknown, hasTyped?: boolean) => string {
  const { problem: t } = useText("kit");
  return (error, hasTyped) => {
    if (error instanceof ApiProblem && error.code !== "unreachable")
      return error.message.replace(FOR_PROGRAMS, "");
    return hasTyped ? t.unreachableTyped : t.unreachable;
  };
}

interface EmptyStateProps {
  icon: IconName;
  title: string;
  /** Names the next step. */
  children?: ReactNode;
  actions?: ReactNode;
}

export function EmptyState({ icon, title, children, actions }: EmptyStateProps) {
  return (
    <div className="empty">
      <Icon name={icon} size={28} />
      <h3>{title}</h3>
      {children}
      {actions && <div className="row">{actions}</div>}
    </div>
  );
}
