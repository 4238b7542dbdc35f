/** Failures of Amazon Bedrock: exceptions, broken frames, rejected keys, failover, disconnects. */

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import { ASK, ask, startCloudGateway } from "./cloud-gateway.ts";

let gateway: RunningGateway;

afterEach(() => gateway.stop());

interface ErrorBody {
  error: { type: string; message: string };
}

const message = async (response: Response) => ((await response.json()) as ErrorBody).error.message;

describe("a single Bedrock account", () => {
  beforeEach(async () => {
    gateway = await startCloudGateway();
  });

  test("throttling is reported as a rate limit", async () => {
    gateway.simulator.force("429@retry=2", 1);
    const response = await ask(gateway, "messages", "bedrock-fast");
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "2"]);
  });

  test("an invalid request is rejected with the upstream's words, and the account stays healthy", async () => {
    const body = { model: "bedrock-fast", max_tokens: 50, messages: [{ role: "robot", content: "x" }] };
    const response = await gateway.call("/v1/messages", body);
    expect(response.status).toBe(400);
    expect(await message(response)).toContain("role");
    expect((await ask(gateway, "messages", "bedrock-fast")).status).toBe(200);
  });

  test("a model that is not ready is reported as overloaded", async () => {
    gateway.simulator.force("not-ready", 1);
    const response = await ask(gateway, "messages", "bedrock-fast");
    expect([response.status, await message(response)]).toEqual([
      529,
      "Selected model is at capacity. Try again shortly or choose another model.",
    ]);
  });

  test("an expired key parks the account", async () => {
    gateway.simulator.force("expired", 1);
    expect((await ask(gateway, "messages", "bedrock-fast")).status).toBe(503);
    expect((await ask(gateway, "messages", "bedrock-fast")).status).toBe(503);
    // The second request was not sent.
    expect(gateway.simulator.ledger.snapshot().entries).toHaveLength(1);
    expect(gateway.log.join("\n")).toContain('"class":"credential"');
  });

  test("a model that does not exist affects this model only", async () => {
    gateway.simulator.force("404", 1);
    expect((await ask(gateway, "messages", "bedrock-fast")).status).toBe(503);
    expect((await ask(gateway, "messages", "bedrock-tools")).status).toBe(200);
  });

  test.each(Object.keys(ASK))(
    "an exception after content ends a %s stream with an error",
    async (dialect) => {
      gateway.simulator.force("error-in-stream@chunk4", 1);
      const response = await ask(gateway, dialect, "bedrock-fast", { stream: true });
      const text = await response.text();
      expect(response.status).toBe(200);
      expect(text).toContain("Good");
      expect(text).toContain("closed the connection in the middle of the response");
      expect(text).not.toContain("internalServerException");
    },
  );

  test.each([
    ["corrupt@chunk4", "closed the connection in the middle"],
    ["cut@chunk4", "closed the connection in the middle"],
    ["cut@byte1500", "closed the connection in the middle"],
    ["rst@chunk4", "closed the connection in the middle"],
    ["truncated", "closed the connection in the middle"],
    ["badline@chunk4", "closed the connection in the middle"],
    ["hugeline@size=17000000", "exceeds the maximum size"],
  ])("the fault %s after content ends the stream with one error event", async (fault, words) => {
    gateway.simulator.force(fault, 1);
    const text = await (await ask(gateway, "messages", "bedrock-fast", { stream: true })).text();
    expect(text).toContain("event: message_start");
    expect(text.match(/^event: error$/gm)).toHaveLength(1);
    expect(text).toContain(words);
    expect(text).not.toContain("event: message_stop");
  });

  test("frames that arrive in pieces are one stream", async () => {
    const whole = await (await ask(gateway, "messages", "bedrock-fast", { stream: true })).text();
    gateway.simulator.force("split", 1);
    const split = await (await ask(gateway, "messages", "bedrock-fast", { stream: true })).text();
    const withoutId = (text: string) => text.replaceAll(/msg_\w+/g, "msg");
    expect(withoutId(split)).toBe(withoutId(whole));
  });

  test("a client that disconnects aborts the upstream request", async () => {
    const controller = new AbortController();
    const response = await ask(gateway, "messages", "bedrock-slow", {
      stream: true,
      signal: controller.signal,
    });
    await response.body?.getReader().read();
    controller.abort();
    await eventually(() => gateway.simulator.ledger.snapshot().entries[0]?.abortedByClient, { equals: true });
  });
});

describe("a Bedrock account with a second account", () => {
  beforeEach(async () => {
    const accounts = [
      {
        name: "anthropic",
        kind: "anthropic",
        base_url: ["$", "{SIMULATOR_URL}"].join(""),
        credential: "bedrock-api-key-canary-77ad0c",
        private_network: true,
        priority: 2,
        models: { "bedrock-fast": "sim-fast" },
      },
    ];
    gateway = await startCloudGateway({ accounts });
  });

  test.each(["429", "503", "rst", "expired", "not-ready", "404", "corrupt@chunk0", "error-in-stream@chunk1"])(
    "the fault %s before content fails over",
    async (fault) => {
      gateway.simulator.force(fault, 1);
      const response = await ask(gateway, "messages", "bedrock-fast", { stream: true });
      expect(await response.text()).toContain("event: message_stop");
      expect(gateway.simulator.ledger.snapshot().entries.map(({ path }) => path)).toEqual([
        "/model/us.anthropic.claude-fast-v1%3A0/invoke-with-response-stream",
        "/v1/messages",
      ]);
    },
  );
});

describe("beta flags", () => {
  const flags =
    "claude-code-20250219,context-1m-2025-08-07,fast-mode-2026-02-01,advanced-tool-use-2025-11-20";
  const headers = { authorization: `Bearer ${TEST_KEY}`, "anthropic-beta": flags };

  const sentBody = () => {
    const { ledger } = gateway.simulator;
    const last = ledger.snapshot().entries.at(-1);
    return JSON.parse(new TextDecoder().decode(ledger.findBody(last?.id ?? "") ?? new Uint8Array(0)));
  };

  test("that the vendor does not accept are left out, and named", async () => {
    gateway = await startCloudGateway();
    const bedrock = await ask(gateway, "messages", "bedrock-fast", { headers });
    expect([bedrock.status, bedrock.headers.get("x-gateway-dropped")]).toEqual([200, "anthropic-beta"]);
    expect(sentBody()).toMatchObject({
      anthropic_version: "bedrock-2023-05-31",
      anthropic_beta: ["context-1m-2025-08-07", "tool-search-tool-2025-10-19"],
    });
    const vertex = await ask(gateway, "messages", "vertex-claude", { headers });
    expect([vertex.status, vertex.headers.get("x-gateway-dropped")]).toEqual([200, "anthropic-beta"]);
    expect(sentBody()).not.toHaveProperty("anthropic_beta");
    expect(gateway.simulator.ledger.snapshot().entries.at(-1)?.headers["anthropic-beta"]).toBe(
      "context-1m-2025-08-07,tool-search-tool-2025-10-19",
    );
  });

  test("are those of the profile, if it has a list", async () => {
    gateway = await startCloudGateway({ bedrock: { profile: { betas: "new-flag-2026-12-01" } } });
    const response = await ask(gateway, "messages", "bedrock-fast", {
      headers: { ...headers, "anthropic-beta": "new-flag-2026-12-01, context-1m-2025-08-07" },
    });
    expect(response.headers.get("x-gateway-dropped")).toBe("anthropic-beta");
    expect(sentBody().anthropic_beta).toEqual(["new-flag-2026-12-01"]);
  });
});
