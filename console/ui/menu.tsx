/** A button with a menu below it: the browser's popover, which closes by itself. */

import { type ReactNode, useId, useRef } from "react";
import { classes } from "./class.ts";
import { Icon, type IconName } from "./icon.tsx";

interface MenuProps {
  label: string;
  icon: IconName;
  /** Shown beside the icon; otherwise the label is only read aloud. */
  text?: string;
  small?: boolean;
  children: ReactNode;
}

export function Menu({ label, icon, text, small, children }: MenuProps) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const place = () => {
    const box = button.current?.getBoundingClientRect();
    const element = menu.current;
    if (!box || !element) return;
    const { offsetWidth, offsetHeight } = element;
    const below = box.bottom + 4;
    const top = below + offsetHeight > innerHeight ? Math.max(8, box.top - offsetHeight - 4) : below;
    element.style.top = `${top}px`;
    element.style.left = `${Math.max(8, Math.min(box.right - offsetWidth, innerWidth - offsetWidth - 8))}px`;
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        className={classes("button", "quiet", small && "small", text === undefined && "icon-only")}
        popoverTarget={id}
        aria-label={text === undefined ? label : undefined}
        title={text === undefined ? label : undefined}
      >
        <Icon name={icon} size={small ? 15 : 18} />
        {text}
      </button>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a choice made inside closes it; the items are the controls. */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: pressing an item by keyboard is a click too. */}
      <div
        ref={menu}
        id={id}
        popover="auto"
        className="menu"
        onToggle={(event) => {
          if (event.newState === "open") place();
        }}
        onClick={(event) => {
          if (event.target instanceof Element && event.target.closest("a, button"))
            menu.current?.hidePopover();
        }}
      >
        {children}
      </div>
    </>
  );
}

interface MenuItemProps {
  icon?: IconName;
  children: ReactNode;
  onClick(): void;
  tone?: "danger";
  isChosen?: boolean;
}

export function MenuItem({ icon, children, onClick, tone, isChosen }: MenuItemProps) {
  return (
    <button type="button" className={classes("menu-item", tone)} aria-pressed={isChosen} onClick={onClick}>
      {icon && <Icon name={icon} size={16} />}
      {children}
      {isChosen && (
        <span style={{ marginLeft: "auto" }}>
          <Icon name="check" size={16} />
        </span>
      )}
    </button>
  );
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <div className="menu-label">{children}</div>;
}
