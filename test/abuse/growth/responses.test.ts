/** The work for a whole response of an upstream grows no faster than its size, wherever it grows, on every route. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { listGrowthCases } from "./grow.ts";
import { json } from "./lab.ts";
import { judgeAll } from "./measure.ts";
import { buildReplyRun, reportsUsage } from "./reply-runs.ts";
import { chooseCases, ROUTES, useWarmLab } from "./routes.ts";
import { SAMPLES } from "./samples.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

describe("the work for a whole response grows linearly", () => {
  test.each(ROUTES)("to %s from %s", async (client, account) => {
    const runs = SAMPLES[account].responses.flatMap((sample) =>
      chooseCases(listGrowthCases(sample.json), [account, client]).map(({ place, variant, build }) => ({
        ...buildReplyRun(lab, [client, account], {
          stream: false,
          reply: (bytes) => json(build(bytes)),
          reportsUsage: reportsUsage(sample),
        }),
        name: `${sample.name}: ${place === "" ? "the document" : place}, ${variant}`,
      })),
    );
    expect(await judgeAll(`responses to ${client} from ${account}`, runs)).toEqual([]);
  });
});
