/** Waits for the first request of a key, on whichever node it arrives, and shows it. */

import { useApi } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { LinkButton } from "../../ui/button.tsx";
import { Card, Facts } from "../../ui/page.tsx";
import { Money, Time } from "../../ui/values.tsx";
import { OutcomeBadge } from "../usage/outcome.tsx";
import type { ChosenKey } from "./key-step.tsx";

/** The list is read from the database, which all nodes write to. */
const POLL_MS = 2_000;

export function RequestStep({ chosen: { id, sinceMs } }: { chosen: ChosenKey }) {
  const t = useText("connect").request;
  const query = { key: id, from_at: sinceMs, limit: 1 };
  const found = useApi("usage.requests", { query }, { refreshMs: POLL_MS });
  const request = found.data?.data[0];
  if (request === undefined) {
    return (
      <Card>
        <p className="row" role="status">
          <span className="spinner" aria-hidden="true" />
          {t.waiting}
        </p>
      </Card>
    );
  }
  const { outcome, status, request_count: count } = request;
  return (
    <Card>
      <p role="status">{status < 400 ? t.arrived : t.rejected}</p>
      <Facts
        facts={[
          [t.time, <Time key="time" at={request.at} exact />],
          [t.model, request.model],
          [t.outcome, <OutcomeBadge key="outcome" outcome={outcome} status={status} count={count} />],
          [t.cost, <Money key="cost" value={request.cost} />],
        ]}
      />
      <div>
        <LinkButton tone="primary" to={`/requests/${request.id}`} icon="list">
          {t.open}
        </LinkButton>
      </div>
    </Card>
  );
}
