import { expect, test } from "bun:test";
import {
  type AccountDocument,
  accountDocument,
  accountValues,
  credentialOf,
  mapOf,
} from "./account-values.ts";

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

test("an account comes back from its form as it went in", () => {
  expect(accountDocument(accountValues(ACCOUNT))).toEqual(ACCOUNT);
});

test("a simulator has no address, no API version and no credential", () => {
  const values = { ...accountValues(ACCOUNT), kind: "simulator" as const, credential: "left over" };
  const document = accountDocument(values);
  expect(document.base_url ?? document.api_version ?? document.private_network).toBeUndefined();
  expect(credentialOf(values)).toEqual({});
});

test("a name alone stands for both sides", () => {
  expect(mapOf("\n gpt-5 \nfast = gpt-5-mini\n")).toEqual({ "gpt-5": "gpt-5", fast: "gpt-5-mini" });
});
