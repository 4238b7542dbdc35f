/** The outcome of a request as a badge. */

import type { ResponseBody } from "../../api.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { Badge } from "../../ui/values.tsx";

type Outcome = ResponseBody<"usage.request">["outcome"];

const TONES = {
  completed: "good",
  incomplete: "warn",
  failed: "bad",
  cancelled: "soft",
  pending: "accent",
  client_gone: "warn",
  upstream_cut: "bad",
  refused: "warn",
} as const;

interface OutcomeBadgeProps {
  outcome: Outcome;
  status: number;
  /** The number of rejected requests that the row counts. */
  count: number;
}

/** The outcome, with the status unless it is 200, and the count if it is above one. */
export function OutcomeBadge({ outcome, status, count }: OutcomeBadgeProps) {
  const { outcomes } = useText("usage");
  const format = useFormat();
  return (
    <Badge tone={TONES[outcome]}>
      {outcomes[outcome]}
      {status >= 400 && ` ${status}`}
      {count > 1 && ` × ${format.number(count)}`}
    </Badge>
  );
}
