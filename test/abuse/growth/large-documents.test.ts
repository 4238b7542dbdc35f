/** The work for large documents, which threads inspect and translate, grows no faster than their size. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { type GrowthCase, listGrowthCases } from "./grow.ts";
import { listEventCases, listLongEventCases } from "./grow-events.ts";
import { buildRequest, DIALECTS, eventStream, json } from "./lab.ts";
import { type GrowthRun, judgeAll, LARGE_DOCUMENT_BYTES } from "./measure.ts";
import { CPU_MS_PER_MIB, plainReply, plainRequest, ROUTES, runOnAccount, useWarmLab } from "./routes.ts";
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

/** Events arrive in chunks of many: work for an event that reads the rest of its chunk shows at this size. */
const STREAM_BYTES = 512 * 1024;
const REPEATED_EVENTS = /^(?:equal|distinct|in groups|alone, (?:equal|distinct))$/;

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
  test.each(DIALECTS)("for large streams of %s", async (dialect) => {
    const [sample] = SAMPLES[dialect].streams;
    if (sample === undefined) throw new Error(`there is no stream of ${dialect}`);
    const cases = [
      ...listEventCases(sample).filter(({ variant }) => REPEATED_EVENTS.test(variant)),
      ...listLongEventCases(sample),
    ];
    const runs = cases.map(({ place, variant, build }) => ({
      name: `${place}, ${variant}`,
      msPerMib: CPU_MS_PER_MIB.passed,
      send: (bytes: number) =>
        runOnAccount(
          lab(),
          dialect,
          (model) => plainRequest(dialect, { model, stream: true }),
          eventStream(dialect, build(bytes)),
        ),
    }));
    expect(await judgeAll(`large streams of ${dialect}`, runs, STREAM_BYTES)).toEqual([]);
  });

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
      send: (bytes: number) =>
        runOnAccount(
          lab(),
          account,
          (model) => plainRequest(client, { model, stream: false }),
          json(build(bytes)),
        ),
    }));
    expect(await judge(`large responses to ${client} from ${account}`, runs, client === account)).toEqual([]);
  });
});
