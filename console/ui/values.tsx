/** Single values: badges, money, times, and texts to copy. */

import { type ReactNode, useEffect, useState } from "react";
import { useFormat, useText } from "../text/text.tsx";
import { IconButton } from "./button.tsx";
import { classes } from "./class.ts";
import { copyText } from "./clipboard.ts";
import { Code } from "./code.tsx";

type BadgeTone = "plain" | "soft" | "accent" | "good" | "warn" | "bad";

/** `plain` has no dot: for kinds and names, where the others are states. */
export function Badge({ tone = "soft", children }: { tone?: BadgeTone; children: ReactNode }) {
  return <span className={classes("badge", tone)}>{children}</span>;
}

/** USD as the API writes it; the title has every digit. `isLeft`: a remaining amount, which is rounded down. */
export function Money({ value, isLeft }: { value: string; isLeft?: boolean }) {
  const format = useFormat();
  return (
    <span className="number" title={format.moneyExact(value)}>
      {isLeft ? format.moneyLeft(value) : format.money(value)}
    </span>
  );
}

export function Count({ value }: { value: number }) {
  const format = useFormat();
  return (
    <span className="number" title={format.number(value)}>
      {format.compact(value)}
    </span>
  );
}

const TICK_MS = 15_000;

/** The time since or until a moment; the exact time is in the title. Null: never. */
export function Time({ at, exact }: { at: number | null; exact?: boolean }) {
  const format = useFormat();
  const t = useText("kit");
  const nowMs = useNow(TICK_MS);
  if (at === null) return <span className="soft">{t.never}</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={format.dateTimeExact(at)} className="nowrap">
      {exact ? format.moment(at, nowMs) : format.relative(at, nowMs)}
    </time>
  );
}

/** The current time, updated at an interval. */
export function useNow(everyMs: number): number {
  const [nowMs, setNowMs] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNowMs(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}

export function CopyButton({ text, label }: { text: string; label?: string }) {
  const t = useText("kit");
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <>
      <IconButton
        small
        icon={isCopied ? "check" : "copy"}
        label={label ?? t.copy}
        onClick={(event) => {
          event.stopPropagation();
          void copyText(text).then(() => setCopied(true));
        }}
      />
      <span className="unseen" role="status">
        {isCopied ? t.copied : ""}
      </span>
    </>
  );
}

/** An id or an address, cut if there is no room, with a button that copies it. */
export function Copy({ text, shown }: { text: string; shown?: string }) {
  return (
    <span className="copyable">
      <code title={text}>{shown ?? text}</code>
      <CopyButton text={text} />
    </span>
  );
}

interface CodeBlockProps {
  code: string;
  label: string;
  /** A language of `ui/highlight.ts`; without it the text is plain. */
  language?: string;
  wrap?: boolean;
}

export function CodeBlock({ code, label, language = "text", wrap }: CodeBlockProps) {
  return (
    <section className={classes("code-block", wrap && "wrap")} aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard. */}
      <pre tabIndex={0}>
        <Code code={code} language={language} />
      </pre>
      <CopyButton text={code} />
    </section>
  );
}

interface MeterProps {
  label: string;
  used: number;
  limit: number;
  /** Both values, formatted for display. */
  show(value: number): string;
  note?: ReactNode;
}

/** The used share of a limit, with a warning from 80 % on. */
export function Meter({ label, used, limit, show, note }: MeterProps) {
  const t = useText("kit");
  const share = limit <= 0 ? 1 : Math.min(1, used / limit);
  return (
    <div className="meter">
      <div className="meter-label">
        <span>{label}</span>
        <span className="number">{t.of(show(used), show(limit))}</span>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: the native element cannot be styled consistently in all browsers. */}
      <div
        className="meter-track"
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}
        aria-valuetext={t.of(show(used), show(limit))}
      >
        <div
          className={classes("meter-fill", share >= 1 ? "bad" : share >= 0.8 && "warn")}
          style={{ width: `${share * 100}%` }}
        />
      </div>
      {note && <div className="small soft">{note}</div>}
    </div>
  );
}
