/** Responses without usage from the upstream: what the gateway counts, against a tokenizer on the whole text. */

import { countTokens as countOlder } from "gpt-tokenizer/encoding/cl100k_base";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import {
  type CorpusKind,
  corpusText,
  createRandom,
  KINDS,
} from "../../src/gateway/metering/corpus.test-support.ts";
import { type ClientRecord, sendRequest } from "./client.ts";
import { startCorpusUpstream } from "./corpus-upstream.ts";
import { checked, type Fault, type Finding, figure, none, percent, quantile } from "./fault.ts";
import { forEachIndex } from "./for-each-concurrent.ts";
import { openRig } from "./killable-gateway.ts";
import { buildConfiguration, buildKey } from "./setup.ts";

const TEXTS_A_ROUND = 100;
const ROUNDS = 16;
const AT_ONCE = 16;
const MEDIAN_MAX = 0.03;
const P99_MAX = 0.1;
/** Around a message and around all of them, as OpenAI documents it. */
const WRAPPING_TOKENS = 7;

interface Sample {
  kind: CorpusKind;
  prompt: string;
  response: string;
}

interface Errors {
  kind: CorpusKind;
  output: number;
  input: number;
  /** Had the model counted by the vocabulary of an older generation. */
  older: number;
}

export const estimate: Fault = {
  name: "estimate",
  promise: "usage that no upstream reports is counted: median error at most 3 %, p99 at most 10 %",
  async run({ times, store, say }) {
    const random = createRandom(7);
    const samples = Array.from({ length: (times ?? ROUNDS) * TEXTS_A_ROUND }, (_, i): Sample => {
      const kind = KINDS[i % KINDS.length] ?? "prose";
      // From a line to some pages.
      const chars = () => Math.round(40 * 300 ** random());
      return { kind, prompt: corpusText(kind, chars(), random), response: corpusText(kind, chars(), random) };
    });
    const upstream = startCorpusUpstream(
      samples.map(({ response }) => response),
      random,
    );
    const rig = await openRig(store, () =>
      buildConfiguration(
        {
          models: { talk: "silent" },
          users: 1,
          balance: "5000.00",
          groups: [{ name: "default", billing: { charge: "balance" } }],
        },
        upstream.url,
      ),
    );
    try {
      const asked: ClientRecord[] = [];
      await forEachIndex(samples.length, AT_ONCE, async (i) => {
        asked[i] = await sendRequest({
          url: rig.url(),
          key: buildKey(0),
          family: i % 2 === 0 ? "chat" : "responses",
          model: "talk",
          stream: i % 4 < 2 || i % 3 === 0,
          prompt: samples[i]?.prompt ?? "",
          more: { user: String(i) },
        });
      });
      say(`${asked.length} answers`);
      await rig.end();
      const rows = new Map((await rig.rows(0)).map((row) => [row.requestId, row]));
      const errors: Errors[] = [];
      const unflagged: string[] = [];
      for (const [i, { kind, prompt, response }] of samples.entries()) {
        const row = rows.get(asked[i]?.requestId ?? "");
        if (row === undefined || row.usageSource !== "estimated" || !row.flags.includes("estimated")) {
          unflagged.push(`${i} ${asked[i]?.status} ${asked[i]?.errorCode} ${row?.usageSource}`);
          continue;
        }
        errors.push({
          kind,
          output: computeError(row.outputTokens, countTokens(response)),
          input: computeError(row.inputTokens, countTokens(prompt) + WRAPPING_TOKENS),
          older: computeError(row.outputTokens, countOlder(response)),
        });
      }
      return [
        figure("texts", samples.length),
        none("rows that are missing or not flagged as estimated", unflagged),
        ...KINDS.map((kind) => {
          const of = errors.filter((one) => one.kind === kind);
          return figure(`${kind}: median / p99 of the output`, spread(of.map(({ output }) => output)));
        }),
        ...verdict(
          "output",
          errors.map(({ output }) => output),
        ),
        ...verdict(
          "input",
          errors.map(({ input }) => input),
        ),
        figure(
          "output, had the model counted by cl100k: median / p99",
          spread(errors.map(({ older }) => older)),
        ),
      ];
    } finally {
      await rig.stop();
      await upstream.stop();
    }
  },
};

function computeError(counted: number, truth: number): number {
  return Math.abs(counted - truth) / Math.max(1, truth);
}

function spread(errors: readonly number[]): string {
  const sorted = [...errors].sort((a, b) => a - b);
  return `${percent(quantile(sorted, 0.5))} / ${percent(quantile(sorted, 0.99))}`;
}

function verdict(what: string, errors: readonly number[]): Finding[] {
  const sorted = [...errors].sort((a, b) => a - b);
  const median = quantile(sorted, 0.5);
  const p99 = quantile(sorted, 0.99);
  return [
    checked(`${what}: median error`, percent(median), "at most 3 %", median <= MEDIAN_MAX),
    checked(`${what}: p99 error`, percent(p99), "at most 10 %", p99 <= P99_MAX),
    figure(`${what}: largest error`, percent(sorted.at(-1) ?? 0)),
  ];
}
