/** Presets of vendors: their page, their defaults in the configuration, and what a translated request contains. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { VENDOR_PRESETS, VENDORS } from "../../src/accounts/vendors.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { withVendorTables } from "./vendors-page.ts";

test("docs/vendors.md is up to date (npm run docs:vendors)", () => {
  const page = readFileSync(resolve(import.meta.dir, "../../docs/vendors.md"), "utf8");
  expect(withVendorTables(page)).toBe(page);
});

test.each(VENDORS)("the address of %s is complete", (vendor) => {
  const { baseUrl, interfaces, isLocal } = VENDOR_PRESETS[vendor];
  expect(baseUrl).toMatch(isLocal ? /^http:\/\/127\.0\.0\.1:\d+\/v1$/ : /^https:\/\/[\w.-]+\/.*v\d$/);
  expect(interfaces).toContain("chat");
});

const file = (account: string) => `
models: [{ id: m, interfaces: [chat, responses] }]
accounts:
  - { name: a, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, models: { m: sim-fast }, ${account} }
groups: [{ name: g, models: [m], accounts: [a] }]
keys: [{ name: k, group: g, secret: ${TEST_KEY} }]
`;

describe("a translated request", () => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ file: file("vendor: groq, profile: { system_role: user }") });
  });
  afterAll(() => gateway.stop());

  test("has the fields of the vendor's profile, and what the configuration overrides", async () => {
    const response = await gateway.call("/v1/responses", {
      model: "m",
      instructions: "Be brief.",
      input: "Hello",
      max_output_tokens: 50,
      service_tier: "default",
      store: false,
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-gateway-dropped")).toContain("service_tier");
    const id = gateway.simulator.ledger.last()?.id ?? "";
    const sent = JSON.parse(
      new TextDecoder().decode(gateway.simulator.ledger.findBody(id) ?? new Uint8Array()),
    );
    expect(sent).toMatchObject({
      max_completion_tokens: 50,
      messages: [{ role: "user", content: "Be brief." }, {}],
    });
    expect(sent).not.toHaveProperty("service_tier");
  });
});
