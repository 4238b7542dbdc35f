import { expect, test } from "bun:test";
import { listKinds } from "../../../../src/console-api/admin/vendors.ts";
import {
  type AccountDocument,
  accountDocument,
  accountValues,
  buildCredentialField,
  findKind,
  newAccount,
  parseModelNames,
  withKind,
  withListedModels,
} from "./account-values.ts";

const KINDS = listKinds();
const NEW_ACCOUNT = newAccount(KINDS);
const kind = (name: string) => findKind(KINDS, name);

const ACCOUNT: AccountDocument = {
  name: "azure-1",
  kind: "azure",
  base_url: "https://x.openai.azure.com",
  interfaces: ["chat", "responses"],
  websocket: true,
  api_version: "2024-10-21",
  private_network: true,
  priority: 2,
  weight: 5,
  limits: { rpm: 60 },
  models: { fast: "gpt-4o-mini", "team/*": "team-*" },
  enabled: false,
};

test("an account survives the round trip through its form", () => {
  expect(accountDocument(accountValues(ACCOUNT, KINDS))).toEqual(ACCOUNT);
});

test("a simulator account has no base URL, API version or credential", () => {
  const values = { ...accountValues(ACCOUNT, KINDS), kind: kind("simulator"), credential: "left over" };
  const document = accountDocument(values);
  expect(document.base_url ?? document.api_version ?? document.private_network).toBeUndefined();
  expect(buildCredentialField(values)).toEqual({});
});

test("another kind sets its own address and interfaces, and keeps an address that was typed in", () => {
  const gemini = withKind(NEW_ACCOUNT, kind("gemini"));
  expect([gemini.baseUrl, gemini.interfaces]).toEqual([
    "https://generativelanguage.googleapis.com",
    ["gemini", "embeddings"],
  ]);
  expect(withKind(gemini, kind("openai"))).toEqual(NEW_ACCOUNT);
  const typed = withKind({ ...NEW_ACCOUNT, baseUrl: "https://proxy.example.com" }, kind("gemini"));
  expect(typed.baseUrl).toBe("https://proxy.example.com");
});

const VERTEX: AccountDocument = {
  name: "vertex-1",
  kind: "vertex",
  region: "europe-west1",
  project: "my-project",
  interfaces: ["messages", "gemini"],
  priority: 1,
  weight: 1,
  models: { "*": "*" },
};

test("a cloud account has its region, and no address of its own", () => {
  expect(accountDocument(accountValues(VERTEX, KINDS))).toEqual(VERTEX);
  const bedrock = accountDocument({ ...withKind(NEW_ACCOUNT, kind("bedrock")), name: "b" });
  expect([bedrock.region, bedrock.base_url, bedrock.project]).toEqual(["us-east-1", undefined, undefined]);
});

test("an account of another kind has neither region nor project", () => {
  const { region, project } = accountDocument({ ...accountValues(VERTEX, KINDS), kind: kind("gemini") });
  expect([region, project]).toEqual([undefined, undefined]);
});

test("a single name maps to itself", () => {
  expect(parseModelNames("\n gpt-5 \nfast = gpt-5-mini\n")).toEqual({ "gpt-5": "gpt-5", fast: "gpt-5-mini" });
});

test("listed models are added, and public names that are in use stay", () => {
  expect(withListedModels("* = *", ["a", "b"])).toBe("a = a\nb = b");
  expect(withListedModels("fast = a\n", ["a", "b"])).toBe("fast = a\nb = b");
});
