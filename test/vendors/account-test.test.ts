/** "Test connection" of the account form lists the models of every vendor, at the path and with the credential it expects. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { VENDOR_PRESETS, VENDORS } from "../../src/accounts/vendors.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const CREDENTIAL = "sk-vendor";
const MODELS = ["model-a", "vendor/model-b"];

interface Setup {
  readonly name: string;
  readonly account: object;
  /** The path of the account's base URL. */
  readonly basePath: string;
  readonly path: string;
  readonly header: string;
  readonly value: string;
  readonly list: unknown;
}

const entries = MODELS.map((id) => ({ id, object: "model" }));
/** Together's list is an array without an envelope. */
const LISTS: Readonly<Record<string, unknown>> = { together: entries };

const SETUPS: readonly Setup[] = [
  ...VENDORS.map((vendor): Setup => {
    const { pathname } = new URL(VENDOR_PRESETS[vendor].baseUrl);
    return {
      name: vendor,
      account: { kind: "openai", vendor },
      basePath: pathname,
      path: `${pathname}/models`,
      header: "authorization",
      value: `Bearer ${CREDENTIAL}`,
      list: LISTS[vendor] ?? { object: "list", data: entries },
    };
  }),
  {
    name: "anthropic",
    account: { kind: "anthropic" },
    basePath: "",
    path: "/v1/models",
    header: "x-api-key",
    value: CREDENTIAL,
    list: { data: MODELS.map((id) => ({ id, type: "model" })), has_more: false },
  },
  {
    name: "google",
    account: { kind: "gemini" },
    basePath: "",
    path: "/v1beta/models",
    header: "x-goog-api-key",
    value: CREDENTIAL,
    list: { models: MODELS.map((id) => ({ name: `models/${id}` })) },
  },
];

let upstream: ReturnType<typeof Bun.serve>;
let gateway: RunningGateway;
let admin: SignedInClient;
/** The vendor that the upstream imitates. */
let expected: Setup | undefined = SETUPS[0];

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url);
      if (request.headers.get(expected?.header ?? "") !== expected?.value)
        return new Response("{}", { status: 401 });
      return pathname === expected?.path ? Response.json(expected.list) : new Response("{}", { status: 404 });
    },
  });
  const file = {
    accounts: SETUPS.map(({ name, account, basePath }) => ({
      name,
      ...account,
      base_url: `http://127.0.0.1:${upstream.port}${basePath}`,
      credential: CREDENTIAL,
      private_network: true,
      models: {},
    })),
    groups: [{ name: "default", models: [], accounts: [] }],
    keys: [{ name: "test", group: "default", secret: TEST_KEY }],
  };
  gateway = await startTestGateway({ file: JSON.stringify(file) });
  admin = await signInAs(gateway, "admin@example.com", "admin");
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

test.each(SETUPS.map((setup) => [setup.name, setup] as const))("of %s", async (name, setup) => {
  expected = setup;
  const { document } = await admin.call("admin.accounts.get", { params: { name } });
  const responded = await admin.call("admin.accounts.test", { body: { document } });
  expect(responded).toMatchObject({ kind: "answers", models: MODELS });
  const wrong = await admin.call("admin.accounts.test", { body: { document, credential: "sk-wrong" } });
  expect(wrong).toMatchObject({ kind: "refused", status: 401, models: [] });
});
