/** Calls for models, usage, requests and stored responses are free of charge, so their rate is bounded for each key. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.stop());

const PATHS = ["/v1/models", "/v1/models/gpt-none", "/v1/usage", "/v1/requests/req_none", "/v1beta/models"];

const RESPONSE = `/v1/responses/resp_${Bun.randomUUIDv7()}`;

test.each([
  ["calls on stored responses", RESPONSE, limits.storedResponseCallsOfKey],
  ["calls for their inputs", `${RESPONSE}/input_items`, limits.readsOfKey],
])("so is that of %s", async (_, path, { burst, perSecond }) => {
  const statuses = await Promise.all(
    Array.from({ length: burst + 4 * perSecond }, async () => {
      const headers = { authorization: `Bearer ${OTHER_KEY}` };
      return (await fetch(gateway.url + path, { headers })).status;
    }),
  );
  expect(new Set(statuses)).toEqual(new Set([404, 429]));
  expect(statuses.filter((status) => status === 404).length).toBeGreaterThanOrEqual(burst);
});

test("a key that calls them without a pause is rejected with 429 and Retry-After", async () => {
  const { burst, perSecond } = limits.readsOfKey;
  const startedMs = performance.now();
  const responses = await Promise.all(
    Array.from({ length: burst + 100 }, (_, i) =>
      fetch(`${gateway.url}${PATHS[i % PATHS.length]}`, { headers: { authorization: `Bearer ${TEST_KEY}` } }),
    ),
  );
  const seconds = (performance.now() - startedMs) / 1_000;
  const rejected = responses.filter(({ status }) => status === 429);
  const served = responses.length - rejected.length;
  expect(served).toBeGreaterThanOrEqual(burst);
  expect(served).toBeLessThanOrEqual(burst + Math.ceil(seconds * perSecond));
  for (const response of rejected) {
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await response.text()).toContain("too often");
  }
});
