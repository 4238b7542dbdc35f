/** The behaviours of the Open Responses suite, all run concurrently like its runner does. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";
import { BEHAVIOURS, type Server } from "./behaviours.ts";

/** Each model with the fault of its upstream. Separate accounts keep failures apart. */
const FAILING = [
  ["failing", "failed"],
  ["cut", "cut"],
  ["erring", "error-in-stream"],
] as const;
const FAILING_NAMES = FAILING.map(([id]) => id).join(", ");

const UPSTREAMS = [
  ["by HTTP", false],
  ["over separate sockets", true],
] as const;

describe.each(UPSTREAMS)("with an account that is called %s", (_, websocket) => {
  let gateway: RunningGateway;
  const outcomes = new Map<string, Promise<void>>();

  beforeAll(async () => {
    gateway = await startTestGateway({
      file: `
models:
  - { id: compliant, interfaces: [responses] }
  - { id: thoughtful, interfaces: [responses] }
${FAILING.map(([id]) => `  - { id: ${id}, interfaces: [responses] }`).join("\n")}
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, websocket: ${websocket}, models: { compliant: sim-tools, thoughtful: sim-reason} }
${FAILING.map(([id, fault]) => `  - { name: ${id}, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, websocket: ${websocket}, models: { ${id}: fault/${fault} } }`).join("\n")}
groups:
  - { name: default, models: [compliant, thoughtful, ${FAILING_NAMES}], accounts: [sim, ${FAILING_NAMES}] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY} }
`,
    });
    const server: Server = {
      model: "compliant",
      reasoningModel: "thoughtful",
      failingModels: FAILING.map(([id]) => id),
      post: (path, body) => gateway.call(path, body),
      open: () => openSocketClient(gateway.url),
    };
    for (const [name, behave] of Object.entries(BEHAVIOURS)) {
      const outcome = behave(server);
      outcomes.set(name, outcome);
      // Reported by its own test.
      outcome.catch(() => {});
    }
  });

  afterAll(() => gateway.stop());

  test.each(Object.keys(BEHAVIOURS))("%s", async (name) => {
    expect(outcomes.has(name)).toBe(true);
    await outcomes.get(name);
  });

  test("the account was called over the expected transport", async () => {
    await Promise.allSettled(outcomes.values());
    const { opened } = gateway.simulator.ledger.sockets();
    expect(opened > 0).toBe(websocket);
  });
});
