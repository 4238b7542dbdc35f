/** A list whose order is significant: each entry can be moved up, moved down and removed. */

import type { ReactNode } from "react";
import { useText } from "../../../text/text.tsx";
import { IconButton } from "../../../ui/button.tsx";
import "./policy.css";

interface OrderedProps {
  label: string;
  items: readonly string[];
  onChange(items: string[]): void;
  children(item: string, index: number): ReactNode;
}

export function Ordered({ label, items, onChange, children }: OrderedProps) {
  const t = useText("policy");
  const swap = (index: number, other: number) => {
    const next = [...items];
    const [moved] = next.splice(index, 1);
    if (moved === undefined) return;
    next.splice(other, 0, moved);
    onChange(next);
  };
  if (items.length === 0) return null;
  return (
    <ol className="policy-ordered" aria-label={label}>
      {items.map((item, index) => (
        <li key={item}>
          <div className="policy-ordered-body">{children(item, index)}</div>
          <div className="policy-ordered-tools">
            <IconButton
              small
              icon="chevronUp"
              label={t.moveUp(item)}
              disabled={index === 0}
              onClick={() => swap(index, index - 1)}
            />
            <IconButton
              small
              icon="chevronDown"
              label={t.moveDown(item)}
              disabled={index === items.length - 1}
              onClick={() => swap(index, index + 1)}
            />
            <IconButton
              small
              icon="close"
              label={t.takeOut(item)}
              onClick={() => onChange(items.filter((one) => one !== item))}
            />
          </div>
        </li>
      ))}
    </ol>
  );
}
