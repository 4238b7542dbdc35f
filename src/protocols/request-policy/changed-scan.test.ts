/** The scan of a changed body, which is derived without reading the body again, is what reading it again would find. */

import { expect, test } from "bun:test";
import { partBytes, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { openChanged, readModelRequest } from "../read-request.ts";
import type { ModelRequest } from "../shared/request.ts";
import { applyRules } from "./apply-rules.ts";
import { DIALECTS, openRandom, writeBody } from "./hostile-bodies.test-support.ts";

const BODIES = 20_000;
const LIMITS = { depthMax: 128, modelNameCharsMax: 200 };
/** Bytes of the head of the request, which a small body may follow in its array. */
const HEAD = "POST / HTTP/1.1\r\n\r\n";

const RULES: BodyRules = {
  inputTokensMax: null,
  outputTokens: null,
  effort: { max: "low", over: "lower" },
  serviceTiers: null,
  tools: null,
  inputsMax: {},
  forced: ["store", "background"],
};
const ENDPOINTS = {
  responses: lookUpEndpoint("responses"),
  chat: lookUpEndpoint("chat.completions"),
  messages: lookUpEndpoint("messages"),
  gemini: { ...lookUpEndpoint("gemini.generate_content"), model: "m" },
} as const;

function writeUpstream({ body }: ModelRequest): string {
  const parts = body.forUpstream("other");
  if (!Array.isArray(parts)) throw new Error("the body is not in memory");
  return Buffer.concat(parts.map(partBytes)).toString();
}

test("a derived scan is the scan of the changed body", () => {
  const random = openRandom(11);
  const derived = { responses: 0, chat: 0, messages: 0, gemini: 0 };
  for (let i = 0; i < BODIES; i++) {
    const dialect = random.pick(DIALECTS);
    const endpoint = ENDPOINTS[dialect];
    const head = random.chance(0.5) ? HEAD : "";
    const bytes = Buffer.from(head + writeBody(random, dialect));
    const body = { bytes, start: head.length, end: bytes.length };
    try {
      const scanned = readModelRequest(body, endpoint, LIMITS).scannedBody();
      if (scanned === null) throw new Error("not JSON");
      const { changed } = applyRules(scanned, RULES, endpoint);
      if (changed?.scan == null) continue;
      derived[dialect]++;
      const again = readModelRequest(wholeBytesPart(changed.bytes), endpoint, LIMITS);
      expect(again.scannedBody()?.scan).toEqual(changed.scan);
      const opened = openChanged(changed, endpoint, LIMITS);
      expect([opened.storesResponse, opened.background]).toEqual([again.storesResponse, again.background]);
      expect(writeUpstream(opened)).toBe(writeUpstream(again));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }
  for (const count of Object.values(derived)) expect(count).toBeGreaterThan(BODIES / 100);
});
