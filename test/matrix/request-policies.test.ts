/** The official SDKs read the responses and errors of requests that a request policy changes or rejects. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { RunningGateway } from "../support/running-gateway.ts";
import { catchFailure } from "./matrix-client.ts";
import { modelName, policyKey, startMatrixGateway, UPSTREAMS } from "./matrix-gateway.ts";
import { POLICY_CLIENTS } from "./policy-clients.ts";

setDefaultTimeout(60_000);

const OUTPUT_MAX = 3_000;
const REJECTING = [
  { name: "no-tools", rule: { tools: { deny: ["web_search"], over: "reject" } } },
  { name: "no-length", rule: { output_tokens: { max: OUTPUT_MAX, over: "reject" } } },
  { name: "no-effort", rule: { effort: { max: "low", over: "reject" } } },
  { name: "no-images", rule: { inputs: { images: "deny" } } },
  { name: "no-input", rule: { input_tokens: { max: 1 } } },
];

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startMatrixGateway({
    request_policies: [
      {
        name: "changing",
        output_tokens: { max: OUTPUT_MAX },
        effort: { max: "low" },
        tools: { deny: ["web_search"] },
        force: { store: false },
      },
      { name: "other-models", models: ["chat-full"] },
      ...REJECTING.map(({ name, rule }) => ({ name, ...rule })),
    ],
  });
});
afterAll(() => gateway?.stop());

/** The last body that an upstream received. */
function received(): string {
  const { ledger } = gateway.simulator;
  const id = ledger.entries().at(-1)?.id ?? "";
  return new TextDecoder().decode(ledger.findBody(id) ?? undefined);
}

describe.each(POLICY_CLIENTS.map((client) => [client.name, client] as const))("%s", (_, client) => {
  describe.each(UPSTREAMS)("on an account with %s", (upstream) => {
    const model = modelName(upstream, "fast");

    test("reads the response to a request without the denied tool and with lower limits", async () => {
      const { text, header } = await client.send(gateway.url, policyKey("changing"), { model });
      expect(text).toContain("simulator");
      expect(header).toMatch(/tools=-(?:web_search|googleSearch)/);
      expect(header).toContain(`output_tokens=${OUTPUT_MAX}`);
      expect(header).toMatch(/effort=/);
      const body = received();
      expect(body).not.toMatch(/web_search|googleSearch/);
      expect(body).toContain("get_weather");
      expect(body).toMatch(
        /"(?:max_output_tokens|max_completion_tokens|max_tokens|maxOutputTokens)": ?3000\b/,
      );
    });

    test("reads the stream of such a request", async () => {
      expect(await client.stream(gateway.url, policyKey("changing"), { model })).toContain("simulator");
      expect(received()).not.toMatch(/web_search|googleSearch/);
    });
  });

  test.each(REJECTING.map(({ name }) => name))("reports a request that %s rejects", async (name) => {
    const sent = gateway.simulator.ledger.entries().length;
    const request = { model: modelName("chat", "fast"), hasImage: name === "no-images" };
    const { status, message } = await catchFailure(client.send(gateway.url, policyKey(name), request));
    expect(status).toBe(400);
    expect(message).toMatch(/request policy|at most|not allow/i);
    expect(gateway.simulator.ledger.entries().length).toBe(sent);
  });

  test("does not find a model that the policy excludes", async () => {
    const request = { model: modelName("chat", "fast") };
    const failure = await catchFailure(client.send(gateway.url, policyKey("other-models"), request));
    expect(failure.status).toBe(404);
  });
});
