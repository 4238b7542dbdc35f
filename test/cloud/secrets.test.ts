/** Credentials, tokens, projects and ARNs of cloud accounts stay out of logs, captures, errors and other upstreams. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type ConsoleClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { ask, BEDROCK_KEY, PRIVATE_KEY, PROJECT, SERVICE_EMAIL, startCloudGateway } from "./cloud-gateway.ts";

setDefaultTimeout(60_000);

let gateway: RunningGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  gateway = await startCloudGateway({
    group: { capture: "all" },
    environment: { ACCESS_LOG: "on" },
    capture: { body_kib: 64, redact: [] },
  });
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

/** A line of the private key in the middle of it. */
const KEY_LINE = PRIVATE_KEY.split("\n")[5] ?? "";
const SECRETS = [BEDROCK_KEY, KEY_LINE, "ya29.simulated"];

function expectNone(text: string, words: readonly string[]): void {
  expect(words.filter((word) => text.includes(word))).toEqual([]);
}

test("responses and errors contain no credential, project, ARN or address", async () => {
  const faults = [
    null,
    "400",
    "404",
    "429",
    "500",
    "canary@400",
    "canary@401",
    "canary@429",
    "error-in-stream@chunk4",
  ];
  for (const fault of faults) {
    for (const [dialect, model] of [
      ["messages", "bedrock-arn"],
      ["chat", "vertex-claude"],
      ["gemini", "vertex-gemini"],
    ] as const) {
      for (const stream of [false, true]) {
        gateway.simulator.force(fault);
        const response = await ask(gateway, dialect, model, { stream });
        const text = `${await response.text()}${JSON.stringify([...response.headers])}`;
        expectNone(text, [...SECRETS, PROJECT, SERVICE_EMAIL, "123456789012", "arn:aws", "CANARY"]);
        gateway.simulator.force(null);
        for (const name of ["bedrock", "vertex"])
          await admin.call("admin.accounts.act", { params: { name }, body: { action: "unpark" } });
      }
    }
  }
});

test("the key of the service account is never sent to the upstream", async () => {
  const { entries } = gateway.simulator.ledger.snapshot();
  expect(entries.length).toBeGreaterThan(10);
  expectNone(JSON.stringify(entries), [KEY_LINE, "PRIVATE KEY", "private_key"]);
});

test("logs contain no credential and no token", async () => {
  await eventually(() => gateway.accessLog.length > 10 && gateway.log.length > 0);
  expectNone([...gateway.log, ...gateway.accessLog].join("\n"), [...SECRETS, SERVICE_EMAIL]);
});

test("captures contain no credential and no token, and the decoded events of a stream", async () => {
  await (await ask(gateway, "messages", "bedrock-fast", { stream: true })).text();
  await (await ask(gateway, "messages", "vertex-claude", { stream: true })).text();
  const captures = await eventually(async () => {
    const { data } = await admin.call("admin.captures.list", { query: {} });
    return data.length >= 2 ? data : null;
  });
  const documents: string[] = [];
  for (const { request_id: id } of captures)
    documents.push(JSON.stringify(await admin.call("admin.captures.read", { params: { id }, body: {} })));
  const all = documents.join("\n");
  expectNone(all, SECRETS);
  expect(all).toContain("event: message_stop");
  expect(all).toContain("invoke-with-response-stream");
});

test("the console returns neither the credential nor a part of it", async () => {
  const account = await admin.call("admin.accounts.get", { params: { name: "vertex" } });
  expectNone(JSON.stringify(account), [...SECRETS, SERVICE_EMAIL]);
  expect(account.document).toMatchObject({ kind: "vertex", region: "europe-west1" });
});
