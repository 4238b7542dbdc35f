/** Tabs, of which one is shown at a time. */

import { type KeyboardEvent, type ReactNode, useId, useState } from "react";

export interface Tab {
  key: string;
  label: string;
  content: ReactNode;
}

/** Arrow keys move between the tabs, as in the ARIA pattern. */
export function Tabs({ label, tabs, first }: { label: string; tabs: readonly Tab[]; first?: string }) {
  const id = useId();
  const [chosen, setChosen] = useState(first ?? tabs[0]?.key);
  const present = tabs.find((tab) => tab.key === chosen) ?? tabs[0];
  const step = (event: KeyboardEvent<HTMLDivElement>) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    const at = tabs.findIndex((tab) => tab.key === present?.key);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    setChosen(next.key);
    document.getElementById(`${id}-${next.key}`)?.focus();
  };
  return (
    <div className="stack">
      <div className="tabs" role="tablist" aria-label={label} onKeyDown={step}>
        {tabs.map((tab) => (
          <button
            key={tab.key}
            type="button"
            role="tab"
            id={`${id}-${tab.key}`}
            aria-selected={tab === present}
            aria-controls={`${id}-panel`}
            tabIndex={tab === present ? 0 : -1}
            onClick={() => setChosen(tab.key)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${present?.key}`}>
        {present?.content}
      </div>
    </div>
  );
}
