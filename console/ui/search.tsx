/** A search field that applies a moment after the last key press. The key `/` focuses it. */

import { useEffect, useRef, useState } from "react";
import { useText } from "../text/text.tsx";
import { Icon } from "./icon.tsx";

const SETTLED_MS = 250;

interface SearchBoxProps {
  label: string;
  /** The text of the address with which the page was opened. */
  initial?: string;
  onSearch(search: string): void;
}

export function SearchBox({ label, initial = "", onSearch }: SearchBoxProps) {
  const t = useText("kit");
  const [typed, setTyped] = useState(initial);
  const applied = useRef(initial.trim());
  const apply = useRef(onSearch);
  apply.current = onSearch;
  useEffect(() => {
    if (typed.trim() === applied.current) return;
    const timer = setTimeout(() => {
      applied.current = typed.trim();
      apply.current(applied.current);
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <search className="search-box">
      <Icon name="search" size={16} />
      <input
        type="search"
        className="input"
        aria-label={label}
        placeholder={t.search}
        data-shortcut="search"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </search>
  );
}
