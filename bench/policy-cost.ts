/**
 * What the rules of a request policy cost: a coding client's request of 90 KB with tools of 33 KB, beside a plain walk over
 * the same bytes in the same run. Prints JSON. A separate process, so that nothing else is measured with it.
 */

import { wholeBytesPart } from "../src/base/parts.ts";
import { skipValue } from "../src/json/members.ts";
import { lookUpEndpoint } from "../src/protocols/endpoints.ts";
import { openChanged, readModelRequest } from "../src/protocols/read-request.ts";
import { applyRules } from "../src/protocols/request-policy/apply-rules.ts";
import type { ScannedBody } from "../src/protocols/shared/request.ts";
import type { BodyRules } from "../src/records/request-policy.ts";

const ROUNDS = 9;
const RUNS_PER_ROUND = 1_000;
const KB = 1_024;

export interface PolicyCost {
  /** Tiers, effort and output limit, without a change. */
  topLevelMicros: number;
  toolsMicrosPerKb: number;
  inputsMicrosPerKb: number;
  /** The least that a pass over the tools costs on this machine now. */
  walkMicrosPerKb: number;
  /** A member that is forced: the new body, and the request that takes the place of the received one. */
  forcedMicros: number;
  reopenMicros: number;
}

const NO_RULES: BodyRules = {
  inputTokensMax: null,
  outputTokens: null,
  effort: null,
  serviceTiers: null,
  tools: null,
  inputsMax: {},
  forced: [],
};
const LIMITS = { depthMax: 128, modelNameCharsMax: 200 };
const ENDPOINT = lookUpEndpoint("responses");

const parameters = {
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: 8 }, (_, i) => [
      `parameter_${i}`,
      { type: "string", description: "A description that is as long as usual for agents." },
    ]),
  ),
  required: ["parameter_0"],
};
const TOOLS = Array.from({ length: 30 }, (_, i) => ({
  type: "function",
  name: `tool_${i}`,
  description: "Reads a file. ".repeat(16),
  parameters,
}));
const INPUT = Array.from({ length: 40 }, (_, i) => ({
  type: "message",
  role: i % 2 === 0 ? "user" : "assistant",
  content: [
    { type: i % 2 === 0 ? "input_text" : "output_text", text: "Some text of the conversation. ".repeat(45) },
  ],
}));

const body = Buffer.from(
  JSON.stringify({
    model: "m",
    input: INPUT,
    tools: TOOLS,
    reasoning: { effort: "high" },
    max_output_tokens: 32_000,
    service_tier: "auto",
    store: true,
  }),
);
const toolBytes = Buffer.from(JSON.stringify(TOOLS));
const inputBytes = Buffer.from(JSON.stringify(INPUT));
const read = (bytes: Uint8Array) => readModelRequest(wholeBytesPart(bytes), ENDPOINT, LIMITS);
const scanned: ScannedBody = requireBody(read(body).scannedBody());
const force = { ...NO_RULES, forced: ["store"] } as const;
const changed = applyRules(scanned, force, ENDPOINT).changed;

if (changed === null) throw new Error("no member was forced");

function requireBody(source: ScannedBody | null): ScannedBody {
  if (source === null) throw new Error("the body is not JSON");
  return source;
}

/** The median of the rounds: what else the machine does comes and goes. */
function measure(run: () => void): number {
  for (let i = 0; i < RUNS_PER_ROUND; i++) run();
  const rounds = Array.from({ length: ROUNDS }, () => {
    const start = process.cpuUsage();
    for (let i = 0; i < RUNS_PER_ROUND; i++) run();
    const { user, system } = process.cpuUsage(start);
    return (user + system) / RUNS_PER_ROUND;
  });
  return rounds.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0;
}

const measureRules = (rules: Partial<BodyRules>) =>
  measure(() => void applyRules(scanned, { ...NO_RULES, ...rules }, ENDPOINT));
const perKb = (micros: number, bytes: Uint8Array) => micros / (bytes.length / KB);

const cost: PolicyCost = {
  topLevelMicros: measureRules({
    serviceTiers: ["auto"],
    effort: { max: "max", over: "lower" },
    outputTokens: { max: 64_000, over: "lower" },
  }),
  toolsMicrosPerKb: perKb(measureRules({ tools: { deny: ["web_search"], over: "drop" } }), toolBytes),
  inputsMicrosPerKb: perKb(measureRules({ inputsMax: { images: 1, urls: 0 } }), inputBytes),
  walkMicrosPerKb: perKb(
    measure(() => void skipValue(toolBytes, 0)),
    toolBytes,
  ),
  forcedMicros: measure(() => void applyRules(scanned, force, ENDPOINT)),
  reopenMicros: measure(() => void openChanged(changed, ENDPOINT, LIMITS)),
};
console.log(JSON.stringify(cost));
