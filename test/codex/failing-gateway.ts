/**
 * Codex with a gateway whose models fail, each in its own way; a model is named after the fault of the simulator.
 */

import { SIMULATOR } from "../support/paid-gateway.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type Asked, type CodexSetup, openCodex } from "./codex.ts";
import { tapWire } from "./wire-tap.ts";

/** Of a user without money. */
export const POOR_KEY = "poor-key-0123456789-0123456789-0123456789";
/** Its money window allows one request. */
export const SPENT_KEY = "spent-key-0123456789-0123456789-012345678";
const FAULTS = ["400", "429@retry=120", "context", "incomplete", "rst@chunk8", "failed"] as const;
const SOUND = ["priced", "busy", "doubled"] as const;

export interface FailingScene {
  gateway: RunningGateway;
  /** The messages that a user of Codex sees, and the requests that Codex sent. */
  ask(model: string, key?: string): Promise<Asked & { requests: string[] }>;
  /** One request without Codex: it exhausts a money window, or cools an account down. */
  wearOut(model: string, key?: string): Promise<void>;
  stop(): Promise<void>;
}

export async function openFailingScene(
  setup: Pick<CodexSetup, "transport" | "provider">,
): Promise<FailingScene> {
  const gateway = await startFailingGateway();
  const tap = await tapWire(gateway.url);
  return {
    gateway,
    async ask(model, key = TEST_KEY) {
      const codex = openCodex({ ...setup, url: tap.url, model, key });
      const before = tap.requests.length;
      try {
        const asked = await codex.ask("Say hello");
        return { ...asked, requests: tap.requests.slice(before) };
      } finally {
        codex.remove();
      }
    },
    async wearOut(model, key = TEST_KEY) {
      const headers = { authorization: `Bearer ${key}` };
      await (await gateway.call("/v1/responses", { model, input: "Hi" }, { headers })).text();
    },
    async stop() {
      await tap.stop();
      await gateway.stop();
    },
  };
}

function startFailingGateway(): Promise<RunningGateway> {
  const models = [...SOUND, ...FAULTS];
  const account = (name: string, model: string, upstream: string) => ({
    name,
    kind: "openai",
    base_url: SIMULATOR,
    credential: name,
    private_network: true,
    models: { [model]: upstream },
  });
  // Each model has its own account: a failure must not cool down the account of the next test.
  const accounts = [
    ...SOUND.map((id) => account(id, id, "sim-fast")),
    ...FAULTS.map((id) => account(id, id, `fault/${id}`)),
    account("double", "doubled", "sim-fast"),
  ];
  return startTestGateway({
    file: JSON.stringify({
      models: models.map((id) => ({ id, interfaces: ["responses"], price: { input: "1", output: "1" } })),
      accounts,
      groups: [
        { name: "default", models, accounts: accounts.map(({ name }) => name), queue: { max_waiting: 0 } },
        { name: "paying", models: ["priced"], accounts: ["priced"], billing: { charge: "balance" } },
      ],
      users: [
        { email: "poor@example.com", balance: "0" },
        { email: "rich@example.com", balance: "100" },
      ],
      keys: [
        { name: "test", group: "default", secret: TEST_KEY },
        { name: "poor", group: "paying", user: "poor@example.com", secret: POOR_KEY },
        {
          name: "spent",
          group: "paying",
          user: "rich@example.com",
          secret: SPENT_KEY,
          limits: { windows: [{ per: "1d", usd: "0.000001" }] },
        },
      ],
    }),
  });
}
