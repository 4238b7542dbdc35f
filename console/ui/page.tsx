/** The frame of every page: heading, sections, cards, figures. */

import { type ReactNode, useEffect, useRef } from "react";
import { useText } from "../text/text.tsx";
import { Link } from "./button.tsx";
import { classes } from "./class.ts";
import { Icon } from "./icon.tsx";

export function Page({ children, narrow }: { children: ReactNode; narrow?: boolean }) {
  return <div className={classes("page", narrow && "narrow")}>{children}</div>;
}

interface PageHeaderProps {
  title: string;
  /** One or two sentences about the purpose of the page. */
  about?: ReactNode;
  /** Buttons. */
  actions?: ReactNode;
  back?: { to: string; label: string };
}

/** After the first load, the focus stays at the top, before the link that skips the navigation. */
let isFirstPage = true;

/** Sets the title of the window, and takes the focus when another page is opened, so that it is read aloud. */
export function PageHeader({ title, about, actions, back }: PageHeaderProps) {
  const shell = useText("shell");
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = shell.documentTitle(title);
  }, [title, shell]);
  useEffect(() => {
    const { activeElement } = document;
    const isElsewhere = activeElement?.closest("main") || activeElement?.matches("input, textarea, select");
    if (!isElsewhere && !isFirstPage) heading.current?.focus({ preventScroll: true });
    isFirstPage = false;
  }, []);
  return (
    <header className="page-header">
      <div>
        {back && (
          <Link to={back.to} className="back-link">
            <Icon name="arrowLeft" size={14} />
            {back.label}
          </Link>
        )}
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {about && <p>{about}</p>}
      </div>
      {actions && <div className="row">{actions}</div>}
    </header>
  );
}

interface SectionProps {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Section({ title, about, actions, children }: SectionProps) {
  return (
    <section className="section">
      <div className="section-header">
        <div>
          <h2>{title}</h2>
          {about && <p>{about}</p>}
        </div>
        {actions && <div className="row">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** `flush`: the content reaches the edges, as tables do. */
export function Card({ children, flush }: { children: ReactNode; flush?: boolean }) {
  return <div className={classes("card", flush && "flush")}>{children}</div>;
}

/** Figures side by side: a container for `Stat`. */
export function Stats({ children }: { children: ReactNode }) {
  return <dl className="stats">{children}</dl>;
}

export function Stat({ label, value, note }: { label: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="stat">
      <dt>{label}</dt>
      <dd>
        {value}
        {note !== undefined && note !== null && <div className="note">{note}</div>}
      </dd>
    </div>
  );
}

/** Names and values, one below the other. */
export function Facts({ facts }: { facts: readonly (readonly [label: string, value: ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([label, value]) => (
        <div key={label} style={{ display: "contents" }}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** For people who are not signed in: one card in the middle, without navigation. */
export function Bare({ title, children, below }: { title: string; children: ReactNode; below?: ReactNode }) {
  const shell = useText("shell");
  useEffect(() => {
    document.title = shell.documentTitle(title);
  }, [title, shell]);
  return (
    <div className="bare">
      <div className="brand">
        <Icon name="gate" size={22} />
        {shell.product}
      </div>
      <main>
        <h1>{title}</h1>
        {children}
      </main>
      {below}
    </div>
  );
}

export function Skeleton({ width, height }: { width?: number | string; height?: number | string }) {
  return <span className="skeleton" style={{ width, height }} aria-hidden="true" />;
}
