/** What Claude Code receives while an upstream is silent, and what it sends before its first request. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { sendMessage } from "./messages-gateway.ts";

const KEEP_ALIVE_MS = 200;
const MODELS = {
  "falls-silent": `fault/stall@chunk5,${KEEP_ALIVE_MS * 5}ms,events=8`,
  "late-content": `fault/stall@chunk1,${KEEP_ALIVE_MS * 5}ms`,
};
const KEYS = { native: TEST_KEY, translated: `translated-${TEST_KEY}` } as const;

let gateway: RunningGateway;

beforeAll(async () => {
  const base_url = ["$", "{SIMULATOR_URL}"].join("");
  const account = { base_url, credential: "a", private_network: true, models: MODELS };
  const models = Object.keys(MODELS);
  gateway = await startTestGateway({
    limits: { keepAliveMs: KEEP_ALIVE_MS, silentReasoningMs: KEEP_ALIVE_MS, keepAliveTickMs: 20 },
    file: JSON.stringify({
      models: models.map((id) => ({ id, interfaces: ["messages"] })),
      accounts: [
        { ...account, name: "native", kind: "anthropic" },
        { ...account, name: "translated", kind: "openai", interfaces: ["chat"] },
      ],
      groups: ["native", "translated"].map((name) => ({ name, models, accounts: [name] })),
      keys: Object.entries(KEYS).map(([name, secret]) => ({ name, group: name, secret })),
    }),
  });
});

afterAll(() => gateway.stop());

describe.each(["native", "translated"] as const)("on a %s account", (kind) => {
  test.each(["falls-silent", "late-content"])(
    "a stream that %s has pings, one start and one end",
    async (model) => {
      const messages = [{ role: "user", content: "Hello there" }];
      const response = await sendMessage(
        gateway,
        { model, messages, stream: true },
        { "x-api-key": KEYS[kind] },
      );
      const types = [...(await response.text()).matchAll(/^event: (\w+)$/gm)].map(([, type = ""]) => type);
      const count = (type: string) => types.filter((one) => one === type).length;
      expect([count("message_start"), count("message_stop"), types.at(-1)]).toEqual([1, 1, "message_stop"]);
      expect(count("ping")).toBeGreaterThan(1);
    },
  );
});

test("the greeting of Claude Code needs no key and counts against none", async () => {
  const before = await gateway.usageRows();
  for (let at = 0; at < 50; at++) {
    const response = await fetch(`${gateway.url}/api/hello`, { method: "HEAD" });
    expect(response.status).toBe(200);
  }
  expect((await fetch(`${gateway.url}/`, { method: "HEAD" })).status).toBeLessThan(500);
  expect(await gateway.usageRows()).toHaveLength(before.length);
});
