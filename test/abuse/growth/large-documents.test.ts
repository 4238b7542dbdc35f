/** The work for large documents, which threads inspect and translate, grows no faster than their size. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { type GrowthCase, listGrowthCases } from "./grow.ts";
import { buildRequest, json } from "./lab.ts";
import { type GrowthRun, judgeAll, LARGE_DOCUMENT_BYTES } from "./measure.ts";
import { CPU_MS_PER_MIB, plainReply, plainRequest, ROUTES, recover, useWarmLab } from "./routes.ts";
import type { Sample } from "./sample.ts";
import { SAMPLES } from "./samples.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

/** The main lists and the texts of the first sample: the other places take the same way at the smaller size. */
const PLACES = /^(?:input|messages|contents|tools|content|output|choices|candidates)$|\.text$|\.content$/;
const VARIANTS = new Set(["equal", "distinct", "words", "escaped"]);

function listCases([sample]: readonly Sample[]): GrowthCase[] {
  if (sample === undefined) return [];
  const chosen = listGrowthCases(sample.json).filter(
    ({ place, variant }) => PLACES.test(place) && VARIANTS.has(variant),
  );
  return chosen.slice(0, 8);
}

/** A thread receives a copy, and its garbage is collected within the measurement. */
const THREAD_MS_PER_MIB = 40;

function judge(title: string, runs: readonly Omit<GrowthRun, "msPerMib">[], isPassed: boolean) {
  const msPerMib = CPU_MS_PER_MIB[isPassed ? "passed" : "translated"] + THREAD_MS_PER_MIB;
  return judgeAll(
    title,
    runs.map((run) => ({ ...run, msPerMib })),
    LARGE_DOCUMENT_BYTES,
  );
}

describe("the work grows linearly", () => {
  test.each(ROUTES)("for large requests from %s to %s", async (client, account) => {
    const runs = listCases(SAMPLES[client].requests).map(({ place, variant, build }) => ({
      name: `${place}, ${variant}`,
      send: (bytes: number) =>
        lab().run(
          buildRequest(client, { model: lab().model(account), stream: false, body: build(bytes) }),
          plainReply(account, false),
        ),
    }));
    expect(await judge(`large requests from ${client} to ${account}`, runs, client === account)).toEqual([]);
  });

  test.each(ROUTES)("for large responses to %s from %s", async (client, account) => {
    const runs = listCases(SAMPLES[account].responses).map(({ place, variant, build }) => ({
      name: `${place}, ${variant}`,
      async send(bytes: number) {
        const sent = plainRequest(client, { model: lab().model(account), stream: false });
        const result = await lab().run(sent, json(build(bytes)));
        await recover(lab(), account);
        return result;
      },
    }));
    expect(await judge(`large responses to ${client} from ${account}`, runs, client === account)).toEqual([]);
  });
});
