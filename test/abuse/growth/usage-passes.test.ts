/**
 * The work for a usage report with many passes, each of which names a model to be priced, grows no faster than the
 * report, in a group with many models.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { paidFile } from "../../support/paid-gateway.ts";
import { TEST_KEY } from "../../support/running-gateway.ts";
import { buildRequest, eventStream, json, type Lab, startLab } from "./lab.ts";
import { type GrowthRun, judgeAll } from "./measure.ts";
import { CPU_MS_PER_MIB } from "./routes.ts";

setDefaultTimeout(600_000);

/** Passes of the largest report. More are not read. */
const PASSES = 1_000;
const MODELS = 2_000;
const CLIENTS = ["messages", "chat"] as const;
const INTERFACES = [...CLIENTS];

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(buildFile);
  for (let run = 0; run < 20; run++)
    for (const client of CLIENTS)
      for (const stream of [false, true]) await send(client, stream, [report([])]);
});
afterAll(() => lab.stop());

const names = Array.from({ length: MODELS }, (_, at) => `m${at}`);

function buildFile(origin: string): string {
  const more = { interfaces: INTERFACES };
  return paidFile({
    balance: "1000000",
    models: Object.fromEntries(
      names.map((name, at) => [
        name,
        { upstream: `upstream-${name}`, price: { input: String(at + 1), output: "10" }, more },
      ]),
    ),
    accounts: [
      {
        name: "hostile",
        kind: "anthropic",
        base_url: `${origin}/v1`,
        credential: "credential",
        private_network: true,
        models: Object.fromEntries(names.map((name) => [name, `upstream-${name}`])),
      },
    ],
    group: { interfaces: INTERFACES },
  });
}

/** What the passes of a report name. */
const PASS_MODELS: Readonly<Record<string, (at: number) => string>> = {
  "one unknown model": () => "unknown",
  "unknown models": (at) => `unknown-model-${at}`,
  "published models": (at) => `m${at}`,
  "models of upstreams, with a date": (at) => `upstream-m${at}-20260101`,
  "names of dates": (at) => `${at}${"-20260101".repeat(20)}`,
};

const pass = (model: string) => ({ type: "message", input_tokens: 1, output_tokens: 1, model });

function report(passes: readonly object[]) {
  return { input_tokens: 1, output_tokens: 1, ...(passes.length > 0 ? { iterations: passes } : {}) };
}

/** Each report follows the one before: a stream may send many. */
function send(client: (typeof CLIENTS)[number], stream: boolean, reports: readonly object[]) {
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hello" }], max_tokens: 9 });
  const head = { id: "msg_1", type: "message", role: "assistant", model: "m0" };
  const [usage] = reports;
  const whole = {
    ...head,
    content: [{ type: "text", text: "Hi" }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage,
  };
  const events = [
    { type: "message_start", message: { ...head, content: [], usage: report([]) } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
    { type: "content_block_stop", index: 0 },
    ...reports.map((usage) => ({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage })),
    { type: "message_stop" },
  ].map((event) => JSON.stringify(event));
  return lab.run(
    buildRequest(client, { model: "m0", stream, body }),
    stream ? eventStream("messages", events) : json(JSON.stringify(whole)),
  );
}

interface Shape {
  readonly name: string;
  readonly stream: boolean;
  /** Divides the passes into reports. */
  split(passes: readonly object[]): readonly object[];
}

const SHAPES: readonly Shape[] = [
  { name: "a whole response", stream: false, split: (passes) => [report(passes)] },
  { name: "a stream", stream: true, split: (passes) => [report(passes)] },
  {
    name: "a stream with a report for each pass",
    stream: true,
    split: (passes) => passes.map((_, at) => report(passes.slice(at, at + 1))),
  },
];

/** The length of a report is that of its passes, nearly. */
function buildRun(client: (typeof CLIENTS)[number], what: string, { name, stream, split }: Shape): GrowthRun {
  const build = PASS_MODELS[what] ?? String;
  return {
    name: `${what} in ${name} for a client of ${client}`,
    msPerMib: CPU_MS_PER_MIB.translated,
    async send(size) {
      const passes = Array.from({ length: size }, (_, at) => pass(build(at)));
      const result = await send(client, stream, split(passes));
      expect([result.status, result.isForwarded]).toEqual([200, true]);
      return result;
    },
  };
}

test("the work grows linearly with the passes", async () => {
  const runs = CLIENTS.flatMap((client) =>
    Object.keys(PASS_MODELS).flatMap((what) => SHAPES.map((shape) => buildRun(client, what, shape))),
  );
  expect(await judgeAll("passes of usage reports", runs, PASSES)).toEqual([]);
});

test("each pass of the largest report is priced by its own model", async () => {
  const passes = Array.from({ length: PASSES }, (_, at) => pass(`upstream-m${at}-20260101`));
  const { requestId } = await send("messages", false, [report(passes)]);
  const headers = { authorization: `Bearer ${TEST_KEY}` };
  const bill = await (await fetch(`${lab.url}/v1/requests/${requestId}`, { headers })).json();
  // Each input token costs a millionth of a dollar more than the one before, and each output token ten.
  expect(bill).toMatchObject({
    usage: { input_tokens: PASSES, output_tokens: PASSES },
    money: { cost: "0.5105" },
  });
});
