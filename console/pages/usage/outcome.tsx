import type { Answer } from "../../api.ts";
import { useText } from "../../text/text.tsx";
import { Badge } from "../../ui/values.tsx";

type Outcome = Answer<"usage.request">["outcome"];

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

/** How it ended; a status that says more than "200" stands beside it. */
export function OutcomeBadge({ outcome, status }: { outcome: Outcome; status: number }) {
  const { outcomes } = useText("usage");
  return (
    <Badge tone={TONES[outcome]}>
      {outcomes[outcome]}
      {status >= 400 && ` ${status}`}
    </Badge>
  );
}
