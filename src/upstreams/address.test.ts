import { describe, expect, test } from "bun:test";
import { compileSnapshot } from "../policy/snapshot.ts";
import { type AccountRecord, NO_RATE_LIMITS } from "../records.ts";
import { credentialHeader, upstreamPath } from "./address.ts";

/** An account as the snapshot has it. */
function account(change: Partial<AccountRecord>) {
  const record: AccountRecord = {
    id: "a1",
    name: "upstream",
    kind: "openai",
    baseUrl: "https://api.example.com/v1",
    sealedCredential: "secret",
    interfaces: ["chat"],
    websocket: false,
    apiVersion: null,
    privateNetwork: false,
    priority: 1,
    weight: 1,
    models: {},
    limits: NO_RATE_LIMITS,
    enabled: true,
    createdAtMs: 1,
    ...change,
  };
  const records = { models: [], accounts: [record], groups: [] };
  const compiled = compileSnapshot(records, { simulatorUrl: null, unseal: () => record.sealedCredential });
  const found = compiled.accounts.get("a1");
  if (!found) throw new Error("the account is not in the snapshot");
  return found;
}

const path = (change: Partial<AccountRecord>, below: string) =>
  upstreamPath(account(change), below, "gpt 6/eu");

describe("where to call an OpenAI-like account", () => {
  test("below its base URL", () => {
    expect(path({}, "/chat/completions")).toBe("/v1/chat/completions");
    expect(path({ baseUrl: "https://api.example.com:8443/deep/v1" }, "/embeddings")).toBe(
      "/deep/v1/embeddings",
    );
  });

  test("at the root when the base URL has no path", () => {
    expect(path({ baseUrl: "https://api.example.com" }, "/embeddings")).toBe("/embeddings");
    expect(path({ baseUrl: "https://api.example.com/" }, "/embeddings")).toBe("/embeddings");
  });

  test("with the query of the call", () => {
    expect(path({}, "/responses/resp_1?stream=true")).toBe("/v1/responses/resp_1?stream=true");
  });
});

describe("where to call an Azure account", () => {
  const azure = (change: Partial<AccountRecord>, below: string) =>
    path({ kind: "azure", baseUrl: "https://acme.example.com", ...change }, below);

  test("below /openai/v1 when it names no version, whether or not the base URL says so", () => {
    expect(azure({}, "/chat/completions")).toBe("/openai/v1/chat/completions");
    expect(azure({ baseUrl: "https://acme.example.com/openai/v1" }, "/responses")).toBe(
      "/openai/v1/responses",
    );
  });

  test("at the deployment when it names one, the version in the query", () => {
    expect(azure({ apiVersion: "2024-10-21" }, "/chat/completions")).toBe(
      "/openai/deployments/gpt%206%2Feu/chat/completions?api-version=2024-10-21",
    );
  });

  test("without a deployment for Responses, which name the model in the body", () => {
    expect(azure({ apiVersion: "preview" }, "/responses")).toBe("/openai/responses?api-version=preview");
    expect(azure({ apiVersion: "preview" }, "/responses/resp_1?stream=true")).toBe(
      "/openai/responses/resp_1?api-version=preview&stream=true",
    );
  });
});

describe("how to show the credential", () => {
  test("as a bearer token, or in Azure's own header", () => {
    expect(credentialHeader(account({}))).toEqual(["authorization", "Bearer secret"]);
    expect(credentialHeader(account({ kind: "azure" }))).toEqual(["api-key", "secret"]);
  });

  test("not at all when there is none", () => {
    expect(credentialHeader(account({ sealedCredential: null }))).toBeNull();
  });
});
