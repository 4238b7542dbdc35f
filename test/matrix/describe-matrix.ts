/**
 * The scenarios of one client on upstreams of every dialect. The oracle is the same conversation on the upstream of the
 * client's own dialect, whose bytes pass through: it must give the same turns, and the usage that the gateway bills.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import {
  type MatrixClient,
  type MatrixConversation,
  type Question,
  TEXTS_BEFORE_CANCEL,
  type ToolResult,
  type Turn,
  type TurnUsage,
  WEATHER,
} from "./matrix-client.ts";
import {
  MODEL_NAMES,
  type ModelBehaviour,
  modelName,
  startMatrixGateway,
  UPSTREAMS,
  type Upstream,
} from "./matrix-gateway.ts";

interface Scenario {
  readonly name: string;
  readonly behaviour: ModelBehaviour;
  readonly streams?: boolean;
  readonly thinks?: boolean;
  readonly media?: Question["media"];
  readonly isFailing?: boolean;
  readonly schema?: object;
  /** The number of turns, and the tools that each of them but the last calls. */
  readonly turns?: number;
  readonly calls?: readonly string[];
}

const SCENARIOS: readonly Scenario[] = [
  { name: "a plain turn", behaviour: "fast" },
  { name: "a streamed turn", behaviour: "fast", streams: true },
  { name: "a turn that the output limit cuts off", behaviour: "cut", streams: true },
  { name: "a turn that a content filter ends", behaviour: "filtered", streams: true },
  { name: "structured output", behaviour: "fast", schema: WEATHER.schema },
  { name: "one tool", behaviour: "caller", turns: 2, calls: ["get_weather"] },
  {
    name: "two parallel tools",
    behaviour: "parallel",
    streams: true,
    turns: 2,
    calls: ["get_weather", "get_time"],
  },
  {
    name: "text and a tool in one turn",
    behaviour: "speaker",
    streams: true,
    turns: 2,
    calls: ["get_weather"],
  },
  { name: "a tool that fails", behaviour: "caller", isFailing: true, turns: 2, calls: ["get_weather"] },
  { name: "an image", behaviour: "fast", media: "image" },
  { name: "a PDF", behaviour: "fast", media: "pdf" },
  {
    name: "thinking with a tool loop of three steps",
    behaviour: "agent",
    streams: true,
    thinks: true,
    turns: 4,
    calls: ["get_weather"],
  },
];

export interface MatrixSetup {
  readonly native: Upstream;
  open(url: string): MatrixClient | Promise<MatrixClient>;
}

export function describeMatrix(clientName: string, { native: own, open }: MatrixSetup): void {
  describe(clientName, () => {
    let gateway: RunningGateway;
    let client: MatrixClient;
    /** The oracle of each scenario. */
    const expected = new Map<string, readonly Turn[]>();

    beforeAll(async () => {
      gateway = await startMatrixGateway();
      client = await open(gateway.url);
      for (const scenario of SCENARIOS) expected.set(scenario.name, await play(client, scenario, () => own));
    });

    afterAll(() => gateway?.stop());

    describe.each(UPSTREAMS)("on an account with %s", (upstream) => {
      test.each(SCENARIOS.map((scenario) => [scenario.name, scenario] as const))(
        "%s",
        async (name, scenario) => {
          const turns = await play(client, scenario, () => upstream);
          const { turns: count = 1, calls = [] } = scenario;
          expect(turns.map((turn) => turn.calls.map((call) => call.name))).toEqual([
            ...Array.from({ length: count - 1 }, () => [...calls]),
            [],
          ]);
          const native = expected.get(name) ?? [];
          expect(turns.map(comparable)).toEqual(native.map(comparable));
          // The word "Error:" is added in dialects without a field for it.
          if (!scenario.isFailing) expectSameUsage(turns, native);
          await expectBilled(gateway, turns);
        },
      );

      test.each([
        ["a full context", "full", 400],
        ["a rate limit", "limited", 429],
        ["an overload", "busy", own === "messages" ? 529 : 503],
      ] as const)("%s is an error with the status of the client's dialect", async (_, behaviour, status) => {
        expect((await client.fail(modelName(upstream, behaviour))).status).toBe(status);
      });

      test("a cancelled stream ends upstream, and costs what was produced until then", async () => {
        const model = modelName(upstream, "slow");
        await client.cancel(model);
        await eventually(async () => gateway.simulator.ledger.last()?.abortedByClient, { equals: true });
        await eventually(async () => (await gateway.usageRows()).at(-1)?.public_model === model);
        const row = (await gateway.usageRows()).at(-1);
        expect(row?.outcome).toBe("client_gone");
        expect(Number(row?.output_tokens)).toBeGreaterThanOrEqual(TEXTS_BEFORE_CANCEL);
        expect(Number(row?.output_tokens)).toBeLessThanOrEqual(
          gateway.simulator.ledger.last()?.outputTokens ?? 0,
        );
        expect(Number(row?.charged_nano)).toBeGreaterThan(0);
      });

      test("tokens are counted", async () => {
        if (client.countTokens === null) return;
        expect(await client.countTokens(modelName(upstream, "fast"))).toBeGreaterThan(0);
      });

      test("a conversation continues on an account with another interface", async () => {
        const others = UPSTREAMS.filter((one) => one !== upstream);
        for (const other of others) {
          const [agent] = SCENARIOS.filter(({ thinks }) => thinks);
          if (agent === undefined) throw new Error("no scenario");
          const turns = await play(client, agent, (turn) => (turn < 2 ? upstream : other));
          expect(turns.at(-1)?.text).toBe(expected.get(agent.name)?.at(-1)?.text ?? "");
        }
      });
    });

    test("all models are listed", async () => {
      expect((await client.listModels()).toSorted()).toEqual(MODEL_NAMES.toSorted());
    });
  });
}

/** Runs a scenario to its end. The upstream may change from turn to turn. */
async function play(
  client: MatrixClient,
  scenario: Scenario,
  upstreamFor: (turn: number) => Upstream,
): Promise<readonly Turn[]> {
  const { behaviour, streams = false, thinks = false, isFailing = false, media, calls = [] } = scenario;
  const conversation = client.open({
    hasTools: calls.length > 0,
    thinks,
    streams,
    schema: scenario.schema ?? null,
  });
  const model = (turn: number) => modelName(upstreamFor(turn), behaviour);
  const question: Question = {
    text: "What is the weather in Bern?",
    ...(media === undefined ? {} : { media }),
  };
  const turns = [await conversation.ask(model(0), question)];
  const result: ToolResult = isFailing
    ? { text: "no such city", isError: true }
    : { text: "sunny", isError: false };
  while (turns.length <= MAX_TURNS && (turns.at(-1)?.calls.length ?? 0) > 0)
    turns.push(await sendResults(conversation, model(turns.length), turns.at(-1), result));
  return turns;
}

const MAX_TURNS = 6;

function sendResults(
  conversation: MatrixConversation,
  model: string,
  turn: Turn | undefined,
  result: ToolResult,
): Promise<Turn> {
  return conversation.sendResults(
    model,
    (turn?.calls ?? []).map(() => result),
  );
}

/** Upstreams differ in whether they show their reasoning. An error is text in dialects without a field for it. */
function comparable({ text, calls, stop }: Turn): object {
  return { text: text.replace("Error: no such city", "no such city"), calls, stop };
}

/** The simulator counts the words of a prompt, so a translation that loses or adds one has another input. */
function expectSameUsage(turns: readonly Turn[], native: readonly Turn[]): void {
  const inputs = (all: readonly Turn[]) => all.map(({ usage }) => usage.input);
  expect(inputs(turns)).toEqual(inputs(native));
  const shown = native.map(({ isReasoned }, at) => isReasoned === turns[at]?.isReasoned);
  const counts = (all: readonly Turn[]) => all.flatMap(({ usage }, at) => (shown[at] ? [usage.output] : []));
  expect(counts(turns)).toEqual(counts(native));
}

/** The usage that the client receives is the usage that the gateway records and bills. */
async function expectBilled(gateway: RunningGateway, turns: readonly Turn[]): Promise<void> {
  const rows = (await gateway.usageRows()).slice(-turns.length);
  const billed = rows.map(
    (row): TurnUsage => ({
      input: Number(row.input_tokens),
      cached: Number(row.cached_tokens),
      output: Number(row.output_tokens),
    }),
  );
  expect(turns.map(({ usage }) => usage)).toEqual(billed);
}
