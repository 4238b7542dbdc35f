import { expect, test } from "bun:test";
import { parseGatewayFile } from "./file.ts";

function refusals(text: string): string[] {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment: {} });
  return parsed.ok ? [] : parsed.problems.map(({ line, field, message }) => `${line} ${field}: ${message}`);
}

const ASKED: [field: string, text: string][] = [
  ["2 groups[0].limits", "groups: [{ name: g,\n  limits: { rpm: 1 } }]"],
  ["2 groups[0].group_limits", "groups: [{ name: g,\n  group_limits: { tpm: 1 } }]"],
  ["2 groups[0].queue", "groups: [{ name: g,\n  queue: { max_waiting: 1, timeout: 30s } }]"],
  ["2 groups[0].billing.charge", "groups: [{ name: g,\n  billing: { charge: balance } }]"],
  ["2 groups[0].billing.charge", "groups: [{ name: g,\n  billing: { charge: subscription } }]"],
  ["3 keys[0].limits", "groups: [{ name: g }]\nkeys: [{ name: k, group: g,\n  limits: { rpm: 1 } }]"],
  ["2 accounts[0].limits", "accounts: [{ name: a, kind: simulator,\n  limits: { concurrency: 1 } }]"],
  ["2 accounts[0].websocket", "accounts: [{ name: a, kind: simulator,\n  websocket: true }]"],
  ["2 accounts[0].kind", "accounts: [{ name: a,\n  kind: anthropic, base_url: https://x.example }]"],
  ["2 accounts[0].kind", "accounts: [{ name: a,\n  kind: gemini, base_url: https://x.example }]"],
  ["2 users[0].balance", 'users: [{ email: a@b.c,\n  balance: "1.00" }]'],
  ["1 registration", "registration: open"],
  ["1 registration", "registration: invite"],
];

for (const [field, text] of ASKED) {
  test(`${text.replace(/\s+/g, " ")} is refused, and nothing else is`, () => {
    const found = refusals(text);
    expect(found).toHaveLength(1);
    expect(found[0]).toStartWith(`${field}: `);
    expect(found[0]).toContain("this version yet");
  });
}

test("the harmless side of the same fields is accepted", () => {
  const text = `
registration: closed
models: [{ id: m, interfaces: [chat], price: { input: "0.15", output: "0.60" } }]
accounts: [{ name: a, kind: simulator, websocket: false }]
groups: [{ name: g, models: [m], accounts: [a], on_disconnect: drain, billing: { charge: none, multiplier: "1.0", model_multipliers: { m: "2.0" } } }]
users: [{ email: a@b.c, role: admin, password: correct horse battery }]
`;
  expect(refusals(text)).toEqual([]);
});
