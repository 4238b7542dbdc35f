/** Clients that disconnect before, during and after the response, on an account with few slots. */

import { eventually } from "../support/eventually.ts";
import { startPooledGateway } from "../support/pooled-gateway.ts";

const ABORTS = 10_000;
const AT_ONCE = 60;
const PLACES = 20;

export async function abortsLeaveNothing(): Promise<string> {
  const gateway = await startPooledGateway({
    accounts: [{ limits: { concurrency: PLACES }, models: { pooled: "sim-fast@events=20,interval=2ms" } }],
    group: { queue: { max_waiting: 10_000, timeout: "60s" }, limits: { concurrency: AT_ONCE } },
  });
  const [upstream] = gateway.upstreams;
  try {
    const body = { model: "pooled", stream: true, messages: [{ role: "user", content: "hi" }] };
    let left = 0;
    let done = 0;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (done < ABORTS) {
          done++;
          const client = new AbortController();
          const leaving = setTimeout(() => client.abort(), Math.random() * 120);
          const received = gateway.call("/v1/chat/completions", body, { signal: client.signal });
          await received.then((response) => response.text()).catch(() => left++);
          clearTimeout(leaving);
        }
      }),
    );
    await eventually(() => upstream?.ledger.totals().inFlight, { equals: 0, withinMs: 10_000 });
    const asked = upstream?.ledger.totals().requests ?? 0;
    const rows = await gateway.usageRows();
    const burst = await Promise.all(
      Array.from({ length: AT_ONCE }, async () => (await gateway.call("/v1/chat/completions", body)).status),
    );
    const served = burst.filter((status) => status === 200).length;
    const summary = `${left} of ${done} left early; ${asked} reached the upstream; ${rows.length} usage rows; afterwards ${served} of ${AT_ONCE} at once were served`;
    // A client may disconnect before its request has arrived. A request that reached the upstream has a row.
    if (served !== AT_ONCE || rows.length < asked) throw new Error(summary);
    return summary;
  } finally {
    await gateway.stop();
  }
}
