/** Names, each with a link to its page. */

import { Fragment } from "react";
import { Link } from "../../ui/button.tsx";
import { Badge, Count } from "../../ui/values.tsx";

interface NameLinksProps {
  names: readonly string[];
  /** The address of the list that has a page for each name. */
  under: "/admin/groups" | "/admin/accounts";
  /** Shown if there are no names. */
  none: string;
}

export function NameLinks({ names, under, none }: NameLinksProps) {
  if (names.length === 0) return <Badge tone="warn">{none}</Badge>;
  return (
    <span className="breakable">
      {names.map((name, i) => (
        <Fragment key={name}>
          {i > 0 && ", "}
          <Link to={`${under}/${encodeURIComponent(name)}`}>{name}</Link>
        </Fragment>
      ))}
    </span>
  );
}

/** A number with a link to the list that it counts. */
export function CountLink({ to, value }: { to: string; value: number }) {
  return (
    <Link to={to}>
      <Count value={value} />
    </Link>
  );
}
