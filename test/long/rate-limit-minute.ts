/** A key with 60 requests a minute, asked far more often for over two minutes of real time. */

import { startPooledGateway } from "../support/pooled-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

const RPM = 60;
const LASTS_MS = 150_000;
const MINUTE_MS = 60_000;
/** The delay between admission and arrival may vary by this much between requests. */
const ROAD_MS = 50;

export async function minuteHolds(): Promise<string> {
  const gateway = await startPooledGateway({
    accounts: [{}],
    keys: { test: { secret: TEST_KEY, limits: { rpm: RPM } } },
  });
  try {
    const body = { model: "pooled", messages: [{ role: "user", content: "hi" }] };
    const untilMs = performance.now() + LASTS_MS;
    let refused = 0;
    while (performance.now() < untilMs) {
      const responses = await Promise.all([1, 2, 3].map(() => gateway.call("/v1/chat/completions", body)));
      for (const response of responses) {
        await response.text();
        if (response.status === 429) refused++;
        else if (response.status !== 200) throw new Error(`an answer had status ${response.status}`);
      }
      await Bun.sleep(20 + Math.random() * 400);
    }
    const arrivals = (gateway.upstreams[0]?.ledger.entries() ?? []).map(({ at }) => at).sort((a, b) => a - b);
    let most = 0;
    for (let first = 0, last = 0; last < arrivals.length; last++) {
      while ((arrivals[last] ?? 0) - (arrivals[first] ?? 0) >= MINUTE_MS - ROAD_MS) first++;
      most = Math.max(most, last - first + 1);
    }
    const summary = `${arrivals.length} served, ${refused} refused, at most ${most} in any 60 s`;
    if (most > RPM) throw new Error(summary);
    // Three minutes begin within the test: fewer requests would mean that slots were unused.
    if (arrivals.length < 2 * RPM) throw new Error(`too few: ${summary}`);
    return summary;
  } finally {
    await gateway.stop();
  }
}
