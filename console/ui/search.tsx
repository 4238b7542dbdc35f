/** Looks for something while it is typed, a moment after the last key. `/` comes here. */

import { useEffect, useRef, useState } from "react";
import { useText } from "../text/text.tsx";
import { Icon } from "./icon.tsx";

const SETTLED_MS = 250;

interface SearchBoxProps {
  label: string;
  onSearch(search: string): void;
}

export function SearchBox({ label, onSearch }: SearchBoxProps) {
  const t = useText("kit");
  const [typed, setTyped] = useState("");
  const told = useRef("");
  const tell = useRef(onSearch);
  tell.current = onSearch;
  useEffect(() => {
    if (typed.trim() === told.current) return;
    const timer = setTimeout(() => {
      told.current = typed.trim();
      tell.current(told.current);
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
