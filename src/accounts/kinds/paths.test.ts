import { describe, expect, test } from "bun:test";
import { compileSnapshot } from "../../policy/snapshot.ts";
import type { AccountRecord } from "../../records/account.ts";
import { accountRecord } from "../../records/records.test-support.ts";
import { credentialHeader, KINDS } from "./table.ts";

/** An account as in the snapshot. */
function account(change: Partial<AccountRecord>) {
  const record = accountRecord("a1", {
    baseUrl: "https://api.example.com/v1",
    sealedCredential: "secret",
    ...change,
  });
  const records = { models: [], accounts: [record], groups: [] };
  const compiled = compileSnapshot(records, { simulatorUrl: null, unseal: () => record.sealedCredential });
  const found = compiled.accounts.get("a1");
  if (!found) throw new Error("the account is not in the snapshot");
  return found;
}

const path = (change: Partial<AccountRecord>, below: string) => {
  const compiled = account(change);
  return KINDS[compiled.kind].path(compiled, { path: below, upstreamModel: "gpt 6/eu", wantsEvents: false });
};

describe("the path of an OpenAI-compatible account", () => {
  test("is below its base URL", () => {
    expect(path({}, "/chat/completions")).toBe("/v1/chat/completions");
    expect(path({ baseUrl: "https://api.example.com:8443/deep/v1" }, "/embeddings")).toBe(
      "/deep/v1/embeddings",
    );
  });

  test("is at the root if the base URL has no path", () => {
    expect(path({ baseUrl: "https://api.example.com" }, "/embeddings")).toBe("/embeddings");
    expect(path({ baseUrl: "https://api.example.com/" }, "/embeddings")).toBe("/embeddings");
  });

  test("includes the query of the request", () => {
    expect(path({}, "/responses/resp_1?stream=true")).toBe("/v1/responses/resp_1?stream=true");
  });
});

describe("the path of an Azure account", () => {
  const azure = (change: Partial<AccountRecord>, below: string) =>
    path({ kind: "azure", baseUrl: "https://acme.example.com", ...change }, below);

  const V1 = "/openai/v1/chat/completions";
  const DEPLOYMENT = "/openai/deployments/gpt%206%2Feu/chat/completions";

  describe.each(["", "/", "/openai", "/openai/", "/openai/v1", "/openai/v1/"])(
    "with the base path '%s'",
    (end) => {
      const to = (apiVersion: string | null, below: string) =>
        azure({ apiVersion, baseUrl: `https://acme.example.com${end}` }, below);

      test.each([
        [null, V1],
        ["v1", `${V1}?api-version=v1`],
        ["preview", `${V1}?api-version=preview`],
        ["latest", `${V1}?api-version=latest`],
        ["2024-10-21", `${DEPLOYMENT}?api-version=2024-10-21`],
        ["2025-04-01-preview", `${DEPLOYMENT}?api-version=2025-04-01-preview`],
      ])("uses the API version %s", (apiVersion, expected) => {
        expect(to(apiVersion, "/chat/completions")).toBe(expected);
      });

      test.each([
        [null, "/openai/v1/responses/resp_1?stream=true"],
        ["preview", "/openai/v1/responses/resp_1?api-version=preview&stream=true"],
        ["2025-04-01-preview", "/openai/responses/resp_1?api-version=2025-04-01-preview&stream=true"],
      ])(
        "uses the API version %s for Responses, which name the model in the body",
        (apiVersion, expected) => {
          expect(to(apiVersion, "/responses/resp_1?stream=true")).toBe(expected);
        },
      );

      test.each([
        [null, "/openai/v1/models"],
        ["preview", "/openai/v1/models?api-version=preview"],
        ["2024-10-21", "/openai/models?api-version=2024-10-21"],
      ])("uses the API version %s for its models", (apiVersion, expected) => {
        expect(to(apiVersion, "/models")).toBe(expected);
      });
    },
  );

  test("is below a custom base path", () => {
    const behind = (apiVersion: string | null, end: string) =>
      azure({ apiVersion, baseUrl: `https://proxy.example.com/azure${end}` }, "/chat/completions");
    expect(behind(null, "")).toBe(`/azure${V1}`);
    expect(behind("preview", "/openai")).toBe(`/azure${V1}?api-version=preview`);
    expect(behind("2024-10-21", "/openai/v1")).toBe(`/azure${DEPLOYMENT}?api-version=2024-10-21`);
  });
});

test("the provider of an Azure account at any host is Azure OpenAI", () => {
  expect(KINDS.azure.provider).toBe("azure.ai.openai");
});

describe("the credential header", () => {
  test("is a bearer token, or Azure's own header", () => {
    expect(credentialHeader(account({}))).toEqual(["authorization", "Bearer secret"]);
    expect(credentialHeader(account({ kind: "azure" }))).toEqual(["api-key", "secret"]);
  });

  test("is absent without a credential", () => {
    expect(credentialHeader(account({ sealedCredential: null }))).toBeNull();
  });
});
