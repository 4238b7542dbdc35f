/** Access tokens of Google Vertex AI through a running gateway: one exchange, renewal, rejection. */

import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { eventually } from "../support/eventually.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { ask, serviceAccountFile, startCloudGateway } from "./cloud-gateway.ts";

setDefaultTimeout(60_000);

let gateway: RunningGateway;

beforeEach(async () => {
  gateway = await startCloudGateway();
});
afterEach(() => gateway.stop());

const readStatus = async (model: string, stream = false) => {
  const response = await ask(gateway, "messages", model, { stream });
  await response.text();
  return response.status;
};

describe("an access token", () => {
  test("is requested once for all requests that need it at the same time", async () => {
    const models = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? "vertex-claude" : "vertex-gemini"));
    expect(await Promise.all(models.map((model) => readStatus(model)))).toEqual(Array(20).fill(200));
    expect(await readStatus("vertex-claude")).toBe(200);
    expect(gateway.simulator.tokenIssuer.exchanges).toBe(1);
  });

  test("that was revoked is replaced, and the request is sent again", async () => {
    expect(await readStatus("vertex-claude")).toBe(200);
    gateway.simulator.tokenIssuer.revokeAll();
    expect(await readStatus("vertex-claude", true)).toBe(200);
    expect(gateway.simulator.tokenIssuer.exchanges).toBe(2);
  });

  test("is renewed before it expires, while requests continue with the valid one", async () => {
    const issuer = gateway.simulator.tokenIssuer;
    // Less than the time before the expiry at which tokens are renewed.
    issuer.tokenSeconds = 200;
    expect(await readStatus("vertex-claude")).toBe(200);
    issuer.failure = 500;
    expect(await readStatus("vertex-claude")).toBe(200);
    await eventually(() => issuer.exchanges, { equals: 2 });
    // The failed renewal is not repeated at once, and does not affect requests.
    expect([await readStatus("vertex-claude"), issuer.exchanges]).toEqual([200, 2]);
  });

  test("that expires before the request would arrive is not used", async () => {
    const issuer = gateway.simulator.tokenIssuer;
    issuer.tokenSeconds = 5;
    expect([await readStatus("vertex-claude"), await readStatus("vertex-claude")]).toEqual([200, 200]);
    expect(issuer.exchanges).toBe(2);
  });
});

describe("an exchange that fails", () => {
  test("with a server error is a failure of the upstream, and the next request tries again", async () => {
    const issuer = gateway.simulator.tokenIssuer;
    issuer.failure = 500;
    const statuses = await Promise.all([readStatus("vertex-claude"), readStatus("vertex-gemini")]);
    expect([statuses, issuer.exchanges]).toEqual([[500, 500], 1]);
    issuer.failure = null;
    await eventually(() => readStatus("vertex-claude"), { equals: 200 });
  });

  test("because the key is rejected parks the account", async () => {
    const { privateKey } = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    });
    const other = await startCloudGateway({
      vertex: { credential: serviceAccountFile({ private_key: privateKey }) },
    });
    try {
      const statuses = [
        await ask(other, "messages", "vertex-claude"),
        await ask(other, "chat", "vertex-gemini"),
      ];
      expect(statuses.map(({ status }) => status)).toEqual([503, 503]);
      expect(other.simulator.tokenIssuer.exchanges).toBe(1);
      expect(other.log.join("\n")).toContain('"class":"credential"');
      expect(other.simulator.ledger.snapshot().entries).toEqual([]);
    } finally {
      await other.stop();
    }
  });
});

test("a client that disconnects while a token is requested sends no request upstream", async () => {
  gateway.simulator.tokenIssuer.delayMs = 500;
  const controller = new AbortController();
  const pending = ask(gateway, "messages", "vertex-claude", { signal: controller.signal }).catch(() => null);
  await eventually(() => gateway.simulator.tokenIssuer.exchanges, { equals: 1 });
  controller.abort();
  await pending;
  // Waits for the same exchange.
  expect(await readStatus("vertex-gemini")).toBe(200);
  const paths = gateway.simulator.ledger.snapshot().entries.map(({ path }) => path.split(":").at(-1));
  expect([paths, gateway.simulator.tokenIssuer.exchanges]).toEqual([["generateContent"], 1]);
});
