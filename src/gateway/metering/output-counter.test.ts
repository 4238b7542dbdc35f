import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { measureSlowdown } from "../../../test/support/machine-speed.ts";
import { reasoningChannel } from "../../protocols/shared/stream.ts";
import { corpusText, createRandom, KINDS, piecesAtRandom } from "./corpus.test-support.ts";
import { type OutputCounter, openOutputCounter } from "./output-counter.ts";
import { loadTokenizer } from "./tokenizer.ts";

const AS_TEXT = { disallowedSpecial: new Set<string>() };

function say(counter: OutputCounter, text: string, lane = 0): void {
  const json = Buffer.from(JSON.stringify(text));
  counter.add(json, 1, json.length - 1, lane);
}

async function counted(pieces: Iterable<string>): Promise<number> {
  const counter = openOutputCounter();
  for (const piece of pieces) say(counter, piece);
  return (await counter.exact()).outputTokens;
}

/** Measures the CPU time of the longest turn in milliseconds, because other processes delay turns too. */
function openTurnWatch(): { stop: () => number } {
  let worstMs = 0;
  let last = process.cpuUsage();
  let timer = setImmediate(function watch() {
    const { user, system } = process.cpuUsage(last);
    worstMs = Math.max(worstMs, (user + system) / 1_000);
    last = process.cpuUsage();
    timer = setImmediate(watch);
  });
  return {
    stop() {
      clearImmediate(timer);
      return worstMs;
    },
  };
}

describe("token counts of a stream", () => {
  test("deviate from the count of the whole text by 0.1 % (median) and 1 % (99th percentile)", async () => {
    await loadTokenizer();
    const random = createRandom(20_260_101);
    const errors: number[] = [];
    for (const kind of KINDS) {
      for (let i = 0; i < 40; i++) {
        // From a few words to 60,000 characters, with short texts as frequent as long ones.
        const text = corpusText(kind, Math.floor(20 * 3_000 ** random()), random);
        const truth = countTokens(text, AS_TEXT);
        errors.push(Math.abs((await counted(piecesAtRandom(text, random))) - truth) / truth);
      }
    }
    errors.sort((a, b) => a - b);
    expect(errors[Math.floor(errors.length * 0.5)]).toBeLessThanOrEqual(0.001);
    expect(errors[Math.floor(errors.length * 0.99)]).toBeLessThanOrEqual(0.01);
  });

  test("do not depend on how the text is split", async () => {
    await loadTokenizer();
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.constantFrom(...KINDS),
        fc.integer({ min: 1, max: 3_000 }),
        async (seed, kind, chars) => {
          const random = createRandom(seed);
          const text = corpusText(kind, chars, random);
          expect(await counted(piecesAtRandom(text, random))).toBe(await counted([text]));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("have a close synchronous estimate at any time", async () => {
    const random = createRandom(7);
    for (const kind of KINDS) {
      const counter = openOutputCounter();
      const text = corpusText(kind, 12_000, random);
      for (const piece of piecesAtRandom(text, random)) {
        say(counter, piece);
        counter.estimate();
      }
      const truth = countTokens(text, AS_TEXT);
      expect(Math.abs(counter.estimate() - truth) / truth).toBeLessThan(0.3);
    }
  });

  test("of interleaved choices are the sum of each choice", async () => {
    const random = createRandom(3);
    const texts = [corpusText("prose", 9_000, random), corpusText("japanese", 9_000, random)];
    const counter = openOutputCounter();
    const [first = [], second = []] = texts.map((text) => piecesAtRandom(text, random));
    for (let i = 0; i < Math.max(first.length, second.length); i++) {
      say(counter, first[i] ?? "", 0);
      say(counter, second[i] ?? "", 4);
    }
    expect((await counter.exact()).outputTokens).toBe(
      texts.reduce((sum, text) => sum + countTokens(text, AS_TEXT), 0),
    );
  });

  test("of tool calls cover the name and arguments of each call", async () => {
    const counter = openOutputCounter();
    for (const city of ["Oslo", "Rome"]) {
      const name = Buffer.from("get_weather");
      counter.addWhole(name, 0, name.length, 3);
      say(counter, '{"city":', 3);
      say(counter, `"${city}"}`, 3);
    }
    const each = (city: string) => countTokens("get_weather") + countTokens(`{"city":"${city}"}`);
    expect((await counter.exact()).outputTokens).toBe(each("Oslo") + each("Rome"));
  });

  test("include reasoning and report it separately", async () => {
    await loadTokenizer();
    const random = createRandom(11);
    const [written, thought] = [corpusText("prose", 30_000, random), corpusText("prose", 30_000, random)];
    const counter = openOutputCounter();
    for (const piece of piecesAtRandom(thought, random)) say(counter, piece, reasoningChannel(0));
    for (const piece of piecesAtRandom(written, random)) say(counter, piece, 0);
    const { outputTokens, reasoningTokens } = await counter.exact();
    const truth = countTokens(thought, AS_TEXT);
    const rough = counter.estimateShown();
    expect(rough.outputTokens).toBe(counter.estimate());
    expect(Math.abs(rough.reasoningTokens - truth) / truth).toBeLessThan(0.1);
    expect(Math.abs(reasoningTokens - truth) / truth).toBeLessThan(0.01);
    const rest = countTokens(written, AS_TEXT);
    expect(Math.abs(outputTokens - reasoningTokens - rest) / rest).toBeLessThan(0.01);
  });

  test("are zero for an empty stream", async () => {
    const counter = openOutputCounter();
    expect(counter.estimate()).toBe(0);
    expect((await counter.exact()).outputTokens).toBe(0);
  });

  test("treat control tokens as plain text", async () => {
    expect(await counted(["a <|endo", "ftext|> b"])).toBe(countTokens("a <|endoftext|> b", AS_TEXT));
  });

  test("can be read repeatedly while the stream continues", async () => {
    const counter = openOutputCounter();
    say(counter, "Hello");
    const first = (await counter.exact()).outputTokens;
    expect((await counter.exact()).outputTokens).toBe(first);
    say(counter, " world, and more");
    expect((await counter.exact()).outputTokens).toBe(countTokens("Hello world, and more"));
  });

  test("take linear time for an endless run of one character", async () => {
    const started = process.cpuUsage();
    const tokens = await counted(Array.from({ length: 400 }, () => "a".repeat(500)));
    expect(process.cpuUsage(started).user).toBeLessThan(5_000_000);
    // Eight characters of this text are one token.
    expect(Math.abs(tokens - 25_000) / 25_000).toBeLessThan(0.02);
  });

  test("hold no turn of the event loop for long, however the text is made and sent", async () => {
    await loadTokenizer();
    const random = createRandom(5);
    const letters = Array.from({ length: 192 * 1024 }, () => String.fromCharCode(97 + 26 * random())).join(
      "",
    );
    const ideographs = Array.from({ length: 64 * 1024 }, () =>
      String.fromCharCode(0x4e00 + 20_000 * random()),
    ).join("");
    const texts = [
      letters,
      ideographs,
      "a".repeat(192 * 1024),
      " ".repeat(192 * 1024),
      "\n".repeat(96 * 1024),
    ];
    const worst = openTurnWatch();
    for (const text of texts) {
      const inOneEvent = openOutputCounter();
      say(inOneEvent, text);
      const inManyEvents = Array.from({ length: 3 }, () => openOutputCounter());
      for (let at = 0; at < text.length; at += 4_096) {
        for (const counter of inManyEvents) say(counter, text.slice(at, at + 4_096));
      }
      await Promise.all([inOneEvent, ...inManyEvents].map((counter) => counter.exact()));
    }
    expect(worst.stop()).toBeLessThan(50 * measureSlowdown());
  }, 60_000);

  test("are estimated for a text that arrives faster than it can be counted", async () => {
    await loadTokenizer();
    const text = corpusText("prose", 2_000_000, createRandom(9));
    const truth = countTokens(text, AS_TEXT);
    const inPieces = Array.from({ length: 20 }, (_, i) => text.slice(i * 100_000, (i + 1) * 100_000));
    for (const pieces of [[text], inPieces]) {
      const tokens = await counted(pieces);
      expect(Math.abs(tokens - truth) / truth).toBeLessThan(0.2);
    }
  });

  test("cover a thousand separate texts", async () => {
    const counter = openOutputCounter();
    for (let lane = 0; lane < 1_000; lane++) say(counter, "word", lane);
    expect((await counter.exact()).outputTokens).toBe(1_000);
  });
});
