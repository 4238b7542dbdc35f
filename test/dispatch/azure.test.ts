/** Accounts of kind azure: the paths, the API version and the header that Azure expects, for every endpoint. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const CREDENTIAL = "azure-credential-3e8a";
/** An environment variable of the configuration file. */
const ORIGIN = `$${"{SIMULATOR_ORIGIN}"}`;

const file = (fields: string) => `
models: [{ id: public-name, interfaces: [chat, responses, embeddings, images] }]
accounts:
  - name: azure
    kind: azure
    ${fields}
    credential: ${CREDENTIAL}
    private_network: true
    models: { public-name: my-deployment.v2 }
groups: [{ name: default, models: [public-name], accounts: [azure] }]
keys: [{ name: test, group: default, secret: ${TEST_KEY} }]
`;

const CALLS: [path: string, body: object][] = [
  ["/chat/completions", { messages: [{ role: "user", content: "Hello" }] }],
  ["/chat/completions", { messages: [{ role: "user", content: "Hello" }], stream: true }],
  ["/responses", { input: "Hello" }],
  ["/responses", { input: "Hello", stream: true }],
  ["/embeddings", { input: "Hello" }],
  ["/images/generations", { prompt: "Hello" }],
];

const KINDS = [
  {
    name: "without a version",
    fields: `base_url: ${ORIGIN}`,
    buildPath: (path: string) => `/openai/v1${path}`,
  },
  {
    name: "without a version, with a full base URL",
    fields: `base_url: ${ORIGIN}/openai/v1/`,
    buildPath: (path: string) => `/openai/v1${path}`,
  },
  {
    name: "with a v1 API version and a partial base URL",
    fields: `base_url: ${ORIGIN}/openai\n    api_version: preview`,
    buildPath: (path: string) => `/openai/v1${path}`,
  },
  {
    name: "with a date as its version",
    fields: `base_url: ${ORIGIN}\n    api_version: 2024-10-21`,
    buildPath: (path: string) =>
      path.startsWith("/responses") ? `/openai${path}` : `/openai/deployments/my-deployment.v2${path}`,
  },
];

describe.each(KINDS)("an azure account $name", ({ fields, buildPath }) => {
  let gateway: RunningGateway;

  beforeAll(async () => {
    gateway = await startTestGateway({ file: file(fields) });
  });
  afterAll(() => gateway.stop());

  test.each(CALLS)("is called at Azure's path for %s %j", async (path, body) => {
    const response = await gateway.call(`/v1${path}`, { model: "public-name", ...body });
    const text = await response.text();
    expect([response.status, text.includes("my-deployment")]).toEqual([200, false]);
    if (!path.startsWith("/images")) expect(text).toContain('"model":"public-name"');
    const entry = gateway.simulator.ledger.last();
    expect(entry?.path).toBe(buildPath(path));
    expect(entry?.model).toBe("my-deployment.v2");
    expect(entry?.headers["api-key"]).toBe(CREDENTIAL);
    expect(entry?.headers).not.toHaveProperty("authorization");
  });

  test("stores responses", async () => {
    const made = await gateway.call("/v1/responses", { model: "public-name", input: "Hello" });
    const { id } = (await made.json()) as { id: string };
    const listed = await gateway.call(`/v1/responses/${id}/input_items?limit=1`);
    expect(await listed.json()).toMatchObject({ object: "list", data: [{ role: "user" }] });
    expect(gateway.simulator.ledger.last()?.path).toBe(buildPath(`/responses/${id}/input_items`));
    const deleted = await gateway.call(`/v1/responses/${id}`, undefined, { method: "DELETE" });
    expect(await deleted.json()).toMatchObject({ deleted: true });
  });
});
