/** The subscriptions of the user. */

import type { ResponseBody } from "../../api.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { Card } from "../../ui/page.tsx";
import { Badge, Meter, useNow } from "../../ui/values.tsx";

type Subscription = ResponseBody<"wallet.get">["subscriptions"][number];

const TICK_MS = 15_000;
const TONES = { running: "good", upcoming: "soft", ended: "soft", cancelled: "soft" } as const;

/** Subscriptions in the order in which they are charged, each with the remaining amount of its windows. */
export function Subscriptions({ subscriptions }: { subscriptions: readonly Subscription[] }) {
  const first = subscriptions.find(({ standing }) => standing === "running");
  return (
    <div className="columns">
      {subscriptions.map((subscription) => (
        <Card key={subscription.id}>
          <Shown subscription={subscription} isFirst={subscription === first && subscriptions.length > 1} />
        </Card>
      ))}
    </div>
  );
}

function Shown({ subscription, isFirst }: { subscription: Subscription; isFirst: boolean }) {
  const t = useText("wallet").subscriptions;
  const format = useFormat();
  const nowMs = useNow(TICK_MS);
  const { standing, starts_at: starts, ends_at: ends, renews } = subscription;
  const term = [
    standing === "upcoming" ? t.starts(format.date(starts)) : null,
    ends === null ? t.open : t.ends(format.dateTime(ends)),
    t.renews[renews] === "" ? null : t.renews[renews],
  ];
  return (
    <div className="stack">
      <div className="row apart">
        <h3 className="breakable">{subscription.plan}</h3>
        <span className="row">
          {isFirst && <Badge tone="accent">{t.first}</Badge>}
          <Badge tone={TONES[standing]}>{t.standing[standing]}</Badge>
        </span>
      </div>
      <p className="small soft">{term.filter((part) => part !== null).join(" · ")}</p>
      {subscription.windows.map((window) => (
        <Meter
          key={window.per}
          label={(window.counted === "rolling" ? t.rolling : t.per)[window.per]}
          used={Number(window.used)}
          limit={Number(window.limit)}
          show={(value) => format.money(String(value))}
          note={[
            t.resets(format.relative(window.resets_at, nowMs)),
            ...(Number(window.held) > 0 ? [t.heldToo(format.money(window.held))] : []),
          ].join(" · ")}
        />
      ))}
    </div>
  );
}
