/** Buttons and links that look like buttons. */

import type { ComponentProps, MouseEventHandler, ReactNode } from "react";
import { Link as RoutedLink } from "wouter";
import { classes } from "./class.ts";
import { Icon, type IconName } from "./icon.tsx";

interface Look {
  tone?: "plain" | "primary" | "danger" | "quiet";
  small?: boolean;
  icon?: IconName;
}

interface ButtonProps extends Look {
  children: ReactNode;
  onClick?: MouseEventHandler<HTMLButtonElement>;
  type?: "button" | "submit";
  /** Shows that the action is running, and ignores further clicks. */
  isBusy?: boolean;
  disabled?: boolean;
  /** The key `n` presses this button: it creates something on the page. */
  isNew?: boolean;
  popoverTarget?: string;
}

/** Disabled by `aria-disabled`, so that the keyboard still reaches it and the reason can be read. */
export function Button({
  tone = "plain",
  small,
  icon,
  isBusy,
  disabled,
  isNew,
  onClick,
  ...rest
}: ButtonProps) {
  const off = disabled === true || isBusy === true;
  return (
    <button
      {...rest}
      type={rest.type ?? "button"}
      className={classes("button", tone, small && "small")}
      aria-disabled={off}
      data-shortcut={isNew ? "new" : undefined}
      onClick={(event) => {
        if (off) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {isBusy ? <span className="spinner" aria-hidden="true" /> : icon && <Icon name={icon} size={16} />}
      {rest.children}
    </button>
  );
}

interface IconButtonProps extends Omit<ComponentProps<"button">, "children" | "className"> {
  icon: IconName;
  /** Read aloud, and shown on hover. */
  label: string;
  small?: boolean;
}

export function IconButton({ icon, label, small, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={classes("button", "quiet", "icon-only", small && "small")}
      aria-label={label}
      title={label}
    >
      <Icon name={icon} size={small ? 15 : 18} />
    </button>
  );
}

/** A link within the console; its address begins after `/console`. */
export function Link({ to, children, className }: { to: string; children: ReactNode; className?: string }) {
  return (
    <RoutedLink href={to} className={className}>
      {children}
    </RoutedLink>
  );
}

export function LinkButton({
  to,
  tone = "plain",
  small,
  icon,
  isNew,
  children,
}: Look & { to: string; isNew?: boolean; children: ReactNode }) {
  return (
    <RoutedLink
      href={to}
      className={classes("button", tone, small && "small")}
      data-shortcut={isNew ? "new" : undefined}
    >
      {icon && <Icon name={icon} size={16} />}
      {children}
    </RoutedLink>
  );
}

/** Downloads a file of the gateway, or one that the page creates: `name` is the name of the latter. */
export function DownloadButton({
  href,
  name,
  children,
}: {
  href: string;
  name?: string;
  children: ReactNode;
}) {
  return (
    <a href={href} download={name ?? true} className="button plain">
      <Icon name="download" size={16} />
      {children}
    </a>
  );
}
