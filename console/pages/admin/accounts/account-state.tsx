/** The health of an account as a badge: the state, its cause, and until when. */

import type { ResponseBody } from "../../../api.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Badge, useNow } from "../../../ui/values.tsx";

export type Facts = ResponseBody<"admin.accounts.get">["facts"];

const TONES = {
  well: "good",
  untried: "soft",
  cooling: "warn",
  probing: "warn",
  parked: "bad",
  draining: "warn",
  disabled: "soft",
} as const satisfies Record<Facts["state"], string>;

const TICK_MS = 1_000;

interface Shown extends Pick<Facts, "state" | "cause" | "free_at"> {
  in_flight?: number;
  models?: Facts["models"];
}

export function AccountState({ facts }: { facts: Shown }) {
  const t = useText("adminAccounts");
  const { state, cause, in_flight: inFlight = 0 } = facts;
  const ailing = facts.models?.filter((model) => model.cause !== null).length ?? 0;
  return (
    <span className="row">
      <Badge tone={TONES[state]}>{state === "draining" ? t.draining(inFlight) : t.states[state]}</Badge>
      {ailing > 0 && cause === null && <Badge tone="warn">{t.modelsAiling(ailing)}</Badge>}
      {cause !== null && (
        <span className="small soft">
          {t.causes[cause]} <Until at={facts.free_at} />
        </span>
      )}
    </span>
  );
}

function Until({ at }: { at: number | null }) {
  const t = useText("adminAccounts");
  const format = useFormat();
  const nowMs = useNow(TICK_MS);
  return at === null ? null : t.freeIn(format.duration(Math.max(0, at - nowMs)));
}
