import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { GroupRecord } from "../records/group.ts";
import { INTERFACES, type Interface } from "../records/interfaces.ts";
import type { KeyOfUser } from "../records/key.ts";
import { type CallerLimits, NO_LIMITS, NO_RATE_LIMITS } from "../records/limits.ts";
import type { PolicyRecords } from "../records/policy.ts";
import {
  accountRecord as account,
  groupRecord,
  keyRecord,
  modelRecord,
} from "../records/records.test-support.ts";
import { KeyIndex } from "./key-index.ts";
import { mapModel } from "./model-map.ts";
import { compileSnapshot, type Snapshot } from "./snapshot.ts";
import { canServe } from "./translation.ts";

const model = (id: string, interfaces: Interface[] = ["chat"]) => modelRecord(id, { interfaces });
const group = (change: Partial<GroupRecord> = {}) =>
  groupRecord("g1", { name: "team", models: ["m1"], accounts: ["a1"], ...change });

function compile(records: Partial<PolicyRecords>, simulatorUrl: string | null = null): Snapshot {
  const all = { models: [model("m1")], accounts: [account("a1")], groups: [group()], ...records };
  return compileSnapshot(all, { simulatorUrl, unseal: ({ sealedCredential }) => sealedCredential });
}

/** Group g1 as interface → model → "account as upstream name", in order. */
function published(snapshot: Snapshot): Record<string, Record<string, string[]>> {
  const shown: Record<string, Record<string, string[]>> = {};
  for (const { id, routes } of snapshot.groups.get("g1")?.models.values() ?? []) {
    shown[id] = {};
    for (const [iface, ways] of routes) {
      shown[id][iface] = ways.map(
        ({ account: { id: accountId }, upstreamModel, translation }) =>
          `${accountId} as ${upstreamModel}${translation === null ? "" : ` by ${translation}`}`,
      );
    }
  }
  return shown;
}

describe("publication", () => {
  test("a model of the group is published with the accounts of the pool that serve it", () => {
    const accounts = [account("a1"), account("a2", { models: { m1: "gpt-6" } }), account("elsewhere")];
    const snapshot = compile({ accounts, groups: [group({ accounts: ["a1", "a2"] })] });
    expect(published(snapshot)).toEqual({ m1: { chat: ["a1 as m1", "a2 as gpt-6"] } });
  });

  test("a model outside the group is not published to it", () => {
    expect(published(compile({ models: [model("m1"), model("m2")] }))).toEqual({
      m1: { chat: ["a1 as m1"] },
    });
  });

  test("a model that no account of the pool maps is not published", () => {
    expect(published(compile({ accounts: [account("a1", { models: { other: "x" } })] }))).toEqual({});
  });

  test("a model without a record is not published", () => {
    expect(published(compile({ models: [] }))).toEqual({});
  });

  test("a disabled account serves nothing and is not in the snapshot", () => {
    const snapshot = compile({ accounts: [account("a1", { enabled: false })] });
    expect(published(snapshot)).toEqual({});
    expect(snapshot.accounts.size).toBe(0);
    expect(snapshot.groups.get("g1")?.accounts).toEqual([]);
  });

  test("models keep the configured order", () => {
    const models = [model("m1"), model("m2"), model("m3")];
    const snapshot = compile({ models, groups: [group({ models: ["m3", "m1", "m2"] })] });
    expect(Object.keys(published(snapshot))).toEqual(["m3", "m1", "m2"]);
  });
});

describe("interfaces", () => {
  test("a model is served through the interfaces shared by model, group and account", () => {
    const snapshot = compile({
      models: [model("m1", ["chat", "responses", "embeddings"])],
      accounts: [account("a1", { interfaces: ["responses", "embeddings", "images"] })],
      groups: [group({ interfaces: ["chat", "responses", "images"] })],
    });
    expect(published(snapshot)).toEqual({
      m1: { chat: ["a1 as m1 by responses"], responses: ["a1 as m1"] },
    });
  });

  test("each interface lists the accounts that have it before those that serve it by translation", () => {
    const snapshot = compile({
      models: [model("m1", ["chat", "responses", "embeddings"])],
      accounts: [
        account("a1", { interfaces: ["chat"] }),
        account("a2", { interfaces: ["chat", "responses"] }),
        account("a3", { interfaces: ["embeddings"] }),
      ],
      groups: [group({ accounts: ["a1", "a2", "a3"], interfaces: ["chat", "responses", "embeddings"] })],
    });
    expect(published(snapshot)).toEqual({
      m1: {
        chat: ["a1 as m1", "a2 as m1"],
        responses: ["a2 as m1", "a1 as m1 by chat"],
        embeddings: ["a3 as m1"],
      },
    });
  });

  test("a better priority counts more than a native interface", () => {
    const snapshot = compile({
      models: [model("m1", ["responses"])],
      accounts: [
        account("native", { interfaces: ["responses"], priority: 1 }),
        account("translated", { interfaces: ["chat"], priority: 0 }),
      ],
      groups: [group({ accounts: ["native", "translated"], interfaces: ["responses"] })],
    });
    expect(published(snapshot)).toEqual({
      m1: { responses: ["translated as m1 by chat", "native as m1"] },
    });
  });

  test("a model without a shared interface is not published", () => {
    expect(published(compile({ groups: [group({ interfaces: ["images"] })] }))).toEqual({});
  });
});

describe("routes", () => {
  test("routes are ordered by ascending priority number, then by the order of the pool", () => {
    const accounts = [
      account("late", { priority: 7 }),
      account("b", { priority: 2 }),
      account("a", { priority: 2 }),
      account("first", { priority: 0 }),
    ];
    const snapshot = compile({ accounts, groups: [group({ accounts: ["late", "b", "a", "first"] })] });
    expect(published(snapshot).m1?.chat).toEqual(["first as m1", "b as m1", "a as m1", "late as m1"]);
  });

  test("groups with the same accounts in another order keep their own order", () => {
    const accounts = [account("a1"), account("a2")];
    const groups = [group({ id: "g0", accounts: ["a1", "a2"] }), group({ accounts: ["a2", "a1"] })];
    expect(published(compile({ accounts, groups })).m1?.chat).toEqual(["a2 as m1", "a1 as m1"]);
  });
});

describe("limits", () => {
  const rpm = (value: number): CallerLimits => ({ ...NO_LIMITS, rpm: value });

  test("a group has limits per key, limits over all its keys, and its queue", () => {
    const queue = { maxWaiting: 3, timeoutMs: 4_000 };
    const snapshot = compile({ groups: [group({ limits: rpm(1), groupLimits: rpm(2), queue })] });
    expect(snapshot.groups.get("g1")).toMatchObject({ limits: rpm(1), groupLimits: rpm(2), queue });
  });

  test("an account has its own limits, available on every route", () => {
    const limits = { ...NO_RATE_LIMITS, concurrency: 5, tpm: 9 };
    const snapshot = compile({ accounts: [account("a1", { limits })] });
    const [route] = snapshot.groups.get("g1")?.models.get("m1")?.routes.get("chat") ?? [];
    expect(route?.account.limits).toEqual(limits);
  });
});

describe("accounts", () => {
  test("the credential is unsealed once, at compile time", () => {
    const snapshot = compile({ accounts: [account("a1", { sealedCredential: "opened" })] });
    expect(snapshot.accounts.get("a1")?.credential).toBe("opened");
  });

  test("the simulator's base URL is the address it listens on, and may be private", () => {
    const snapshot = compile(
      { accounts: [account("a1", { kind: "simulator", baseUrl: "" }), account("a2")] },
      "http://127.0.0.1:4010/v1",
    );
    expect(snapshot.accounts.get("a1")).toMatchObject({
      baseUrl: "http://127.0.0.1:4010/v1",
      privateNetwork: true,
    });
    expect(snapshot.accounts.get("a2")).toMatchObject({
      baseUrl: "https://upstream.example/v1",
      privateNetwork: false,
    });
  });

  test("a credential that cannot be unsealed fails the whole build", () => {
    const unseal = () => {
      throw new Error("sealed under a lost key");
    };
    const records = { models: [], accounts: [account("a1")], groups: [] };
    expect(() => compileSnapshot(records, { simulatorUrl: null, unseal })).toThrow("lost key");
  });
});

const someInterfaces = fc.subarray([...INTERFACES]);
const modelIds = ["m1", "m2", "gpt-6", "gpt-6-mini"];
const accountIds = ["a1", "a2", "a3"];
const policies: fc.Arbitrary<PolicyRecords> = fc.record({
  models: fc
    .subarray(modelIds)
    .chain((ids) => fc.tuple(...ids.map((id) => someInterfaces.map((list) => model(id, list))))),
  accounts: fc.tuple(
    ...accountIds.map((id) =>
      fc
        .record({
          interfaces: someInterfaces,
          priority: fc.nat(2),
          enabled: fc.boolean(),
          models: fc.dictionary(
            fc.constantFrom(...modelIds, "*", "gpt-*", "gpt-6-*"),
            fc.constantFrom("up", "up-*"),
          ),
        })
        .map((change) => account(id, change)),
    ),
  ),
  groups: fc.array(
    fc
      .record({
        interfaces: someInterfaces,
        models: fc.shuffledSubarray(modelIds),
        accounts: fc.shuffledSubarray(accountIds),
      })
      .map((change) => group(change)),
    { minLength: 1, maxLength: 3 },
  ),
});

test("the routes of every group match a naive reading of the records", () => {
  fc.assert(
    fc.property(policies, (records) => {
      const named = records.groups.map((row, i) => ({ ...row, id: `g${i}` }));
      const snapshot = compile({ ...records, groups: named });
      for (const row of named) {
        const compiled = snapshot.groups.get(row.id);
        for (const id of modelIds) {
          for (const iface of INTERFACES) {
            const ways = row.accounts
              .flatMap((accountId) => records.accounts.find((one) => one.id === accountId) ?? [])
              .filter(
                (one) => one.enabled && canServe(one.interfaces, iface) && mapModel(one.models, id) !== null,
              )
              .sort(
                (a, b) =>
                  a.priority - b.priority ||
                  Number(b.interfaces.includes(iface)) - Number(a.interfaces.includes(iface)),
              );
            const granted =
              row.models.includes(id) &&
              row.interfaces.includes(iface) &&
              records.models.some((one) => one.id === id && one.interfaces.includes(iface));
            expect(
              compiled?.models
                .get(id)
                ?.routes.get(iface)
                ?.map((way) => way.account.id) ?? [],
            ).toEqual(granted ? ways.map((one) => one.id) : []);
          }
        }
      }
    }),
  );
});

describe("a large installation", () => {
  const pick = (list: readonly string[], from: number, count: number) =>
    Array.from({ length: count }, (_, i) => list[(from * 7 + i) % list.length] ?? "");

  test("compiles 1,000 groups over 1,000 accounts", () => {
    const models = Array.from({ length: 200 }, (_, i) => model(`model-${i}`, [...INTERFACES]));
    const accounts = Array.from({ length: 1_000 }, (_, i) =>
      account(`account-${i}`, {
        interfaces: [...INTERFACES],
        priority: i % 3,
        models: { "model-*": "up-*", "*": "*" },
      }),
    );
    const groups = Array.from({ length: 1_000 }, (_, i) =>
      group({
        id: `g${i}`,
        models: pick(
          models.map(({ id }) => id),
          i,
          50,
        ),
        accounts: pick(
          accounts.map(({ id }) => id),
          i,
          20,
        ),
      }),
    );
    const snapshot = compile({ models, accounts, groups });
    expect(snapshot.groups.get("g999")?.models.size).toBe(50);
    expect(snapshot.groups.get("g999")?.models.get("model-0")?.routes.get("chat")?.length).toBe(20);
  });

  test("indexes 100,000 keys", () => {
    const keys = Array.from(
      { length: 100_000 },
      (_, i): KeyOfUser => ({
        ...keyRecord(`k${i}`, { groupId: `g${i % 1_000}`, digest: `digest-${i}` }),
        userLimits: NO_LIMITS,
        capture: null,
        formerSecrets: [],
      }),
    );
    const index = new KeyIndex();
    index.patch(keys);
    expect(index.size).toBe(100_000);
    expect(index.find("digest-99999", 0)?.groupId).toBe("g999");
  });
});
