import { expect, test } from "bun:test";
import { parseGatewayFile } from "./file.ts";

function refusals(text: string): string[] {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment: {} });
  return parsed.ok ? [] : parsed.problems.map(({ line, field, message }) => `${line} ${field}: ${message}`);
}

const ASKED: [field: string, text: string][] = [
  [
    "3 groups[0].limits.windows[1].usd",
    'groups: [{ name: g, limits: { windows: [\n  { per: 5h, requests: 1 },\n  { per: 1d, usd: "5.00" }] } }]',
  ],
  [
    "2 groups[0].group_limits.windows[0].usd",
    'groups: [{ name: g, group_limits: {\n  windows: [{ per: 5h, usd: "5.00", tokens: 7 }] } }]',
  ],
  [
    "2 users[0].limits.windows[0].usd",
    'users: [{ email: a@b.c,\n  limits: { windows: [{ per: 5h, usd: "5.00" }] } }]',
  ],
  [
    "3 keys[0].limits.windows[0].usd",
    'groups: [{ name: g }]\nkeys: [{ name: k, group: g,\n  limits: { windows: [{ per: 30d, usd: "5" }] } }]',
  ],
  ["2 groups[0].billing.charge", "groups: [{ name: g,\n  billing: { charge: balance } }]"],
  ["2 groups[0].billing.charge", "groups: [{ name: g,\n  billing: { charge: subscription } }]"],
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
accounts: [{ name: a, kind: simulator, websocket: false, limits: { concurrency: 1, rpm: 2, tpm: 3 } }]
groups: [{ name: g, models: [m], accounts: [a], on_disconnect: drain, limits: { rpm: 1 }, group_limits: { windows: [{ per: 5h, tokens: 7 }] }, queue: { max_waiting: 1, timeout: 30s }, billing: { charge: none, multiplier: "1.0", model_multipliers: { m: "2.0" } } }]
users: [{ email: a@b.c, role: admin, password: correct horse battery, limits: { tpm: 5 } }]
keys: [{ name: k, group: g, limits: { concurrency: 2 } }]
`;
  expect(refusals(text)).toEqual([]);
});
