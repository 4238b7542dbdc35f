import { expect, test } from "bun:test";
import { parseGatewayFile } from "./file.ts";

function refusals(text: string): string[] {
  const parsed = parseGatewayFile(text, { fileName: "gateway.yaml", environment: {} });
  return parsed.ok ? [] : parsed.problems.map(({ line, field, message }) => `${line} ${field}: ${message}`);
}

const ASKED: [field: string, text: string][] = [
  ["2 accounts[0].kind", "accounts: [{ name: a,\n  kind: anthropic, base_url: https://x.example }]"],
  ["2 accounts[0].kind", "accounts: [{ name: a,\n  kind: gemini, base_url: https://x.example }]"],
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
accounts: [{ name: a, kind: simulator, websocket: true, limits: { concurrency: 1, rpm: 2, tpm: 3 } }]
groups: [{ name: g, models: [m], accounts: [a], on_disconnect: drain, limits: { rpm: 1 }, group_limits: { windows: [{ per: 5h, tokens: 7, usd: "5.00" }] }, queue: { max_waiting: 1, timeout: 30s }, billing: { charge: none, multiplier: "1.0", model_multipliers: { m: "2.0" } } }]
users: [{ email: a@b.c, role: admin, password: correct horse battery, balance: "10.00", limits: { tpm: 5 } }]
keys: [{ name: k, group: g, limits: { concurrency: 2 } }]
`;
  expect(refusals(text)).toEqual([]);
});
