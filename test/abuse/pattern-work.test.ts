/** Texts that others choose are searched in time in proportion to their length, whatever they repeat. */

import { expect, test } from "bun:test";
import { baseUrl, url } from "../../src/config/schema/basic-values.ts";
import { promptTooLong } from "../../src/protocols/messages/messages-error.ts";
import { measureSlowdown } from "../support/machine-speed.ts";

const WORK_MS_MAX = 20;
/** The host of a virtual machine can stop it, which counts as CPU time. What a search needs itself shows each time. */
const TRIES = 3;

const CASES: readonly [what: string, search: (text: string) => unknown, text: string][] = [
  ["an upstream's message of digits", promptTooLong, "1,111".repeat(2_000)],
  ["slashes in a base URL", (text) => baseUrl.safeParse(text), `https://host/${"/".repeat(20_000)}a`],
  ["a long host in a base URL", (text) => baseUrl.safeParse(text), `https://${"a.".repeat(20_000)}/é`],
  ["slashes in a public URL", (text) => url.safeParse(text), `https://host/${"/".repeat(20_000)}a`],
];

test.each(CASES)("%s", (_, search, text) => {
  const allowedMs = WORK_MS_MAX * measureSlowdown();
  const taken = Array.from({ length: TRIES }, () => {
    const before = process.threadCpuUsage();
    search(text);
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000;
  });
  expect(Math.min(...taken)).toBeLessThan(allowedMs);
});
