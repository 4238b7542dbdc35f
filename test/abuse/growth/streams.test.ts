/** The work for a stream of an upstream grows no faster than its size, wherever it grows, on every route. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { listEventCases } from "./grow-events.ts";
import { eventStream } from "./lab.ts";
import { judgeAll } from "./measure.ts";
import { buildReplyRun, reportsUsage } from "./reply-runs.ts";
import { chooseCases, ROUTES, useWarmLab } from "./routes.ts";
import { SAMPLES } from "./samples.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

describe("the work for a streamed response grows linearly", () => {
  test.each(ROUTES)("to %s from %s", async (client, account) => {
    const runs = SAMPLES[account].streams.flatMap((sample) =>
      chooseCases(listEventCases(sample), [account, client]).map(({ place, variant, build }) => ({
        ...buildReplyRun(lab, [client, account], {
          stream: true,
          reply: (bytes) => eventStream(account, build(bytes)),
          reportsUsage: reportsUsage(sample),
        }),
        name: `${sample.name}: ${place}, ${variant}`,
      })),
    );
    expect(await judgeAll(`streams to ${client} from ${account}`, runs)).toEqual([]);
  });
});
