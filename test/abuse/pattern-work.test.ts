/** Texts that others choose are searched in time in proportion to their length, whatever they repeat. */

import { expect, test } from "bun:test";
import { baseUrl, url } from "../../src/config/schema/basic-values.ts";
import { promptTooLong } from "../../src/protocols/messages/messages-error.ts";
import { measureSlowdown } from "../support/machine-speed.ts";
import { measureOwnWork } from "./own-work.ts";

const WORK_MS_MAX = 20;
const RUNS = 3;

const CASES: readonly [what: string, search: (text: string) => unknown, text: string][] = [
  ["an upstream's message of digits", promptTooLong, "1,111".repeat(2_000)],
  ["slashes in a base URL", (text) => baseUrl.safeParse(text), `https://host/${"/".repeat(20_000)}a`],
  ["a long host in a base URL", (text) => baseUrl.safeParse(text), `https://${"a.".repeat(20_000)}/é`],
  ["slashes in a public URL", (text) => url.safeParse(text), `https://host/${"/".repeat(20_000)}a`],
];

test.each(CASES)("%s", (what, search, text) => {
  const allowedMs = WORK_MS_MAX * measureSlowdown();
  const leastMs = measureOwnWork(what, { bytes: text.length, runs: RUNS, run: () => search(text) });
  expect(leastMs).toBeLessThan(allowedMs);
});
