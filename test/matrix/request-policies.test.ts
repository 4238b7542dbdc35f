/**
 * Every rule of a request policy, sent with the official SDKs over HTTP and over a WebSocket, on accounts of every
 * dialect. Where the body passes through, only the named members differ from what the SDK sends without a policy.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { z } from "zod";
import { requestPolicy } from "../../src/config/schema/request-policies.ts";
import { isObject } from "../../src/json/parse.ts";
import { RULE_PLACES } from "../../src/protocols/request-policy/apply-rules.ts";
import { DIALECTS } from "../../src/records/interfaces.ts";
import { RULES, type Rule } from "../../src/records/request-policy.ts";
import { rawRequest } from "../support/raw-http.ts";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import { catchFailure } from "./matrix-client.ts";
import { modelName, policyKey, SOCKET_MODEL, startMatrixGateway, UPSTREAMS } from "./matrix-gateway.ts";
import { cutMembers } from "./named-members.ts";
import { POLICY_CELLS, type PolicyCase, VIOLATION } from "./policy-cells.ts";
import { POLICY_CLIENTS, type PolicyClient } from "./policy-clients.ts";
import type { PolicyRequest } from "./policy-requests.ts";

setDefaultTimeout(60_000);

interface RulePart {
  readonly name: string;
  readonly rule: Rule;
}

/** The rules of the file, with their parts: each way to treat a request that exceeds one, and each optional member. */
function listRuleParts(): readonly RulePart[] {
  const { properties = {} } = z.toJSONSchema(requestPolicy, { io: "input" });
  return RULES.flatMap((rule) => {
    const schema = properties[rule];
    if (!isObject(schema)) throw new Error(`the file has no rule ${rule}`);
    const { properties: members, required = [] } = schema;
    if (!isObject(members)) return [{ rule, name: rule }];
    const { over } = members;
    const ways: unknown[] = isObject(over) && Array.isArray(over.enum) ? over.enum : [];
    const isOptional = !Array.isArray(required) || required.length === 0;
    const parts = ways.length === 0 && isOptional ? Object.keys(members) : ways;
    if (parts.length === 0) return [{ rule, name: rule }];
    return parts.map((part) => ({ rule, name: `${rule}.${String(part)}` }));
  });
}

const RULE_PARTS = listRuleParts();
const CASES: readonly PolicyCase[] = RULE_PARTS.flatMap(({ name, rule }) =>
  (POLICY_CELLS[name] ?? []).map((cell) => ({ ...cell, rule, name: `${name}: ${cell.name}` })),
);
const keyName = ({ name }: PolicyCase, end: "over" | "within") =>
  `${name.replaceAll(/[^a-zA-Z]+/g, "-").toLowerCase()}-${end}`;

const COMBINED = {
  name: "combined",
  output_tokens: { max: 3_000 },
  effort: { max: "low" },
  tools: { deny: ["web_search"] },
  force: { store: false },
};

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startMatrixGateway({
    hasSocketAccount: true,
    request_policies: [
      COMBINED,
      ...CASES.flatMap((one) => [
        { name: keyName(one, "over"), ...one.policy },
        ...(one.within === null ? [] : [{ name: keyName(one, "within"), ...one.within }]),
      ]),
    ],
  });
});
afterAll(() => gateway?.stop());

test("every rule of the file has a cell", () => {
  expect(Object.keys(POLICY_CELLS).toSorted()).toEqual(RULE_PARTS.map(({ name }) => name).toSorted());
});

test.each(RULE_PARTS)("$name has a place in the dialects that the product names", ({ name, rule }) => {
  const [, member] = name.split(".");
  for (const dialect of DIALECTS) {
    const hasPlace = POLICY_CELLS[name]?.some(({ places }) => places[dialect] !== null);
    const known = rule === "models" || rule === "networks" ? [] : RULE_PLACES[rule][dialect];
    const isKnown = known !== null && (rule !== "force" || known.includes(member ?? ""));
    expect([dialect, hasPlace]).toEqual([dialect, isKnown]);
  }
});

interface Attempt {
  readonly failure: { readonly status: number; readonly message: string } | null;
  /** The SDK has found the text of the upstream in the response. */
  readonly isRead: boolean;
  readonly header: string | null | undefined;
  /** The body that an upstream received; null if none has. */
  readonly body: string | null;
}

/** Sends the request, and notes what the client and the upstream see. */
async function attempt(client: PolicyClient, key: string, request: PolicyRequest): Promise<Attempt> {
  const before = listSent().length;
  const [result, failure] = await client.send(gateway.url, key, request).then(
    (sent) => [sent, null] as const,
    async (error: unknown) => [null, await catchFailure(Promise.reject(error))] as const,
  );
  return {
    failure: failure && { ...failure, message: failure.message.replaceAll(/req_[0-9a-f-]+/g, "req") },
    isRead: result?.text.includes(SIMULATED) ?? false,
    header: result === null ? null : result.header,
    body: listSent().length === before ? null : readBody(),
  };
}

/** In every text of the simulator. */
const SIMULATED = "simulator";

/** The requests that upstreams received, without the polls of responses in the background. */
const listSent = () => gateway.simulator.ledger.entries().filter(({ requestBytes }) => requestBytes > 0);

/** The last body that an upstream received. */
function readBody(): string {
  const body = gateway.simulator.ledger.findBody(listSent().at(-1)?.id ?? "");
  if (body === null) throw new Error("the simulator has not kept the body");
  return new TextDecoder().decode(body);
}

/** What the last request has recorded. */
async function readTrace(): Promise<{ rules: readonly unknown[]; errorCode: unknown }> {
  // Reading usage writes pending rows first.
  await (await gateway.call("/v1/usage")).text();
  const [row] = await gateway.installation.db
    .sql`SELECT trace, error_code FROM usage ORDER BY request_id DESC LIMIT 1`;
  const trace: unknown = JSON.parse(String(row?.trace ?? "null"));
  const changes = isObject(trace) && Array.isArray(trace.policyChanges) ? trace.policyChanges : [];
  return { rules: changes.map(({ rule }: { rule: unknown }) => rule), errorCode: row?.error_code };
}

function routes({ isSocket }: PolicyClient): [account: string, model: string][] {
  const overHttp = UPSTREAMS.map((upstream): [string, string] => [upstream, modelName(upstream, "fast")]);
  return isSocket ? [...overHttp, ["Responses over a WebSocket", SOCKET_MODEL]] : overHttp;
}

const passes = (model: string, { dialect }: PolicyClient) =>
  model === SOCKET_MODEL || model === modelName(dialect, "fast");

/** The SDK does not report why an upgrade was rejected. */
test("a WebSocket from another network gets the status of a rejected request", async () => {
  const key = CASES.filter(({ rule }) => rule === "networks").map((one) => policyKey(keyName(one, "over")));
  const head = `GET /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key[0]}\r\n`;
  const upgrade =
    "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  const { status, body } = await rawRequest(gateway.url, head + upgrade);
  expect(status).toBe(403);
  expect(body).toContain("network_not_allowed");
});

/** The upstream must get what it gets when the client sends this request without a policy. */
async function expectChanged(
  client: PolicyClient,
  one: PolicyCase,
  { free, bound, model }: Compared,
): Promise<void> {
  const { outcome } = one;
  if ("status" in outcome) throw new Error("the request is rejected");
  const wanted = await attempt(client, TEST_KEY, { model, ...outcome.into });
  expect(bound).toMatchObject({ failure: null, isRead: true });
  expect(JSON.parse(bound.body ?? "null")).toEqual(JSON.parse(wanted.body ?? "null"));
  if (client.isSocket) expect(bound.header).toBeUndefined();
  else expect(bound.header).toMatch(outcome.header);
  if (!passes(model, client)) return;
  const places = one.places[client.dialect] ?? [];
  expect(bound.body).not.toBe(free.body);
  expect(cutMembers(bound.body ?? "", places)).toBe(cutMembers(free.body ?? "", places));
}

interface Compared {
  readonly model: string;
  /** Without a policy. */
  readonly free: Attempt;
  readonly bound: Attempt;
}

function expectRejected(client: PolicyClient, one: PolicyCase, { failure, body }: Attempt): void {
  const { outcome } = one;
  if (!("status" in outcome)) throw new Error("the request is changed");
  expect(body).toBeNull();
  const isUpgrade = one.rule === "networks" && client.isSocket;
  expect(failure?.status).toBe(isUpgrade ? 0 : outcome.status);
  if (isUpgrade) return;
  const message = failure?.message ?? "";
  if (outcome.message !== null) {
    expect(message).toMatch(outcome.message);
    return;
  }
  expect(message).toContain("request policy");
  const places = one.places[client.dialect] ?? [];
  const names = places.map((path) => path.filter((step) => typeof step === "string"));
  const params = names.flatMap((path) => [path.join("."), path.at(-1)]);
  expect(params.filter((param) => message.includes(`\`${param}\``))).not.toEqual([]);
}

describe.each(POLICY_CLIENTS.map((client) => [client.name, client] as const))("%s", (_, client) => {
  describe.each(routes(client))("on an account with %s", (_, model) => {
    test.each(CASES.map((one) => [one.name, one] as const))("%s", async (_, one) => {
      const { outcome, rule, within } = one;
      const request = { model, ...one.request };
      const free = await attempt(client, TEST_KEY, request);
      const isRejectedAnyway = one.isHttpOnly === true && client.isSocket;
      // What vendors do not know they reject themselves.
      if (passes(model, client)) expect(free.body === null).toBe(isRejectedAnyway);
      if (within !== null)
        expect(await attempt(client, policyKey(keyName(one, "within")), request)).toEqual(free);
      const bound = await attempt(client, policyKey(keyName(one, "over")), request);
      if (one.places[client.dialect] === null || isRejectedAnyway) {
        expect(bound).toEqual(free);
        return;
      }
      const { rules, errorCode } = await readTrace();
      if ("status" in outcome) {
        expectRejected(client, one, bound);
        if (outcome === VIOLATION) expect(errorCode).toBe("policy_violation");
        return;
      }
      expect(rules).toEqual([rule]);
      await expectChanged(client, one, { model, free, bound });
    });

    test("all rules together change a stream", async () => {
      const text = await client.stream(gateway.url, policyKey(COMBINED.name), {
        model,
        effort: "high",
        hasSearch: true,
        ...(client.dialect === "messages" ? {} : { store: true }),
      });
      expect(text).toContain(SIMULATED);
      const body = readBody();
      expect(body).not.toMatch(/web_search|googleSearch|"store": ?true|9000/);
      expect(body).toContain("get_weather");
      expect(body).toMatch(/3000\b/);
      const { rules } = await readTrace();
      expect(new Set(rules)).toEqual(
        new Set(["tools", "effort", "output_tokens", ...(client.dialect === "messages" ? [] : ["force"])]),
      );
    });
  });
});
