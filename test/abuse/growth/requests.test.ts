/** The work for a request grows no faster than its size, wherever it grows, on every route. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { listGrowthCases } from "./grow.ts";
import { buildRequest, DIALECTS, type Dialect, json } from "./lab.ts";
import { type GrowthRun, judgeAll } from "./measure.ts";
import { CPU_MS_PER_MIB, chooseCases, ROUTES, useWarmLab } from "./routes.ts";
import { SAMPLES } from "./samples.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

/** A short response of each dialect. */
const REPLIES = Object.fromEntries(
  DIALECTS.map((dialect) => [dialect, json(JSON.stringify(SAMPLES[dialect].responses[0]?.json))]),
);

describe("the work for a request grows linearly", () => {
  test.each(ROUTES)("from %s to %s", async (client, account) => {
    expect(await judgeAll(`requests from ${client} to ${account}`, listRuns(client, account))).toEqual([]);
  });
});

function listRuns(client: Dialect, account: Dialect): GrowthRun[] {
  return SAMPLES[client].requests.flatMap((sample) =>
    chooseCases(listGrowthCases(sample.json), [client, account]).map(({ place, variant, build }) => ({
      name: `${sample.name}: ${place === "" ? "the document" : place}, ${variant}`,
      msPerMib: CPU_MS_PER_MIB[client === account ? "passed" : "translated"],
      send: (bytes: number) =>
        lab().run(
          buildRequest(client, { model: lab().model(account), stream: false, body: build(bytes) }),
          REPLIES[account] ?? json("{}"),
        ),
    })),
  );
}
