/** The work for a response of an upstream grows no faster than its size, wherever it grows, on every route. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { listGrowthCases } from "./grow.ts";
import { listEventCases } from "./grow-events.ts";
import { type Canned, type Dialect, eventStream, json, type Result } from "./lab.ts";
import { type GrowthRun, judgeAll } from "./measure.ts";
import { CPU_MS_PER_MIB, chooseCases, plainRequest, ROUTES, runOnAccount, useWarmLab } from "./routes.ts";
import { SAMPLES } from "./samples.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

describe("the work for a whole response grows linearly", () => {
  test.each(ROUTES)("to %s from %s", async (client, account) => {
    const runs = SAMPLES[account].responses.flatMap((sample) =>
      chooseCases(listGrowthCases(sample.json), [account, client]).map(({ place, variant, build }) => ({
        ...runFor(client, account, {
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

describe("the work for a streamed response grows linearly", () => {
  test.each(ROUTES)("to %s from %s", async (client, account) => {
    const runs = SAMPLES[account].streams.flatMap((sample) =>
      chooseCases(listEventCases(sample), [account, client]).map(({ place, variant, build }) => ({
        ...runFor(client, account, {
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

interface ReplySetup {
  readonly stream: boolean;
  readonly reportsUsage: boolean;
  reply(bytes: number): Canned;
}

const reportsUsage = (sample: object) => /"usage(?:Metadata)?":\{/.test(JSON.stringify(sample));

function runFor(
  client: Dialect,
  account: Dialect,
  { stream, reportsUsage, reply }: ReplySetup,
): Pick<GrowthRun, "msPerMib" | "send"> {
  return {
    msPerMib:
      CPU_MS_PER_MIB[client === account ? "passed" : "translated"] +
      (reportsUsage ? 0 : CPU_MS_PER_MIB.counted),
    async send(bytes): Promise<Result> {
      const request = (model: string) => plainRequest(client, { model, stream });
      const result = await runOnAccount(lab(), account, request, reply(bytes));
      if (!result.isForwarded) throw new Error(`the account of ${account} was not used: ${result.text}`);
      return result;
    },
  };
}
