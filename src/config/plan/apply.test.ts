import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { usdText } from "../../money/nano.ts";
import { defaultOnDisconnect, NO_BILLING } from "../../records/group.ts";
import { NO_LIMITS, NO_RATE_LIMITS } from "../../records/limits.ts";
import { accountRecord } from "../../records/records.test-support.ts";
import { accountCredentialBinding, unseal } from "../../secrets/seal.ts";
import { readRevisions } from "../../store/engine/revisions.ts";
import { listUsers } from "../../store/identity/users.ts";
import { putAccount } from "../../store/policy/accounts.ts";
import { listKeys, revokeKey } from "../../store/policy/keys.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { exportFile } from "../export/export.ts";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import type { Installation } from "../installation/installation.ts";
import { formatProblem } from "../state/problem.ts";
import { readState } from "../state/step.ts";
import { applyChanges, type PlannedChanges, planChanges } from "./apply.ts";
import { ConcurrentChangeError } from "./concurrent-change.ts";

// Hashing passwords is slow by design, and the machine may be busy.
setDefaultTimeout(60_000);

let gateway: Installation;
let remove: FreshInstallation["remove"];

beforeEach(async () => {
  ({ gateway, remove } = await freshInstallation());
});

afterEach(() => remove());

const SECRETS = {
  UPSTREAM_KEY: "sk-canary-upstream-0123456789",
  OPS_PASSWORD: "canary-correct-horse-battery",
  CI_KEY: "canary-ci-key-0123456789-0123456789",
};

const FILE = `
models:
  - id: fast-chat
    interfaces: [chat, responses]
    price: { input: "0.15", cached_input: "0.075", output: "0.60" }
  - id: org/embed
    interfaces: [embeddings]
accounts:
  - name: up
    kind: openai
    base_url: https://up.example/v1
    credential: \${UPSTREAM_KEY}
    websocket: true
    models: { fast-chat: gpt-x, "gpt-*": "gpt-*" }
  - name: cloud
    kind: azure
    base_url: https://cloud.example
    api_version: 2024-10-21
    private_network: true
    priority: 2
    enabled: false
  - name: sim
    kind: simulator
groups:
  - name: default
    models: [org/embed, fast-chat]
    accounts: [sim, up]
    on_disconnect: drain
  - name: empty
users:
  - email: ops@example.com
    role: admin
  - email: dev@example.com
keys:
  - name: ci
    user: ops@example.com
    group: default
    secret: \${CI_KEY}
  - name: made
    group: default
    expires: 2031-05-01
`;

/** Separate, because hashing is slow by design. */
const FILE_WITH_PASSWORD = FILE.replace("role: admin\n", `role: admin\n    password: \${OPS_PASSWORD}\n`);

async function plan(text: string, prune = false, environment: Record<string, string> = SECRETS) {
  return planChanges(gateway, { text, fileName: "gateway.yaml", environment }, { prune });
}

async function planned(
  text: string,
  prune = false,
  environment: Record<string, string> = SECRETS,
): Promise<PlannedChanges> {
  const result = await plan(text, prune, environment);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join("\n"));
  return result.plan;
}

async function apply(text: string, prune = false, environment: Record<string, string> = SECRETS) {
  const made = await planned(text, prune, environment);
  await applyChanges(gateway, made);
  return made;
}

async function rejections(text: string, environment: Record<string, string> = SECRETS): Promise<string[]> {
  const result = await plan(text, false, environment);
  return result.ok ? [] : result.problems.map(({ line, field, message }) => `${line} ${field}: ${message}`);
}

function summary(changes: PlannedChanges["changes"]): string[] {
  return changes.map(
    ({ kind, what, fields }) => `${kind} ${what}: ${fields.map(({ field }) => field).join(" ")}`,
  );
}

describe("applying a file", () => {
  test("creates every record that the file names", async () => {
    const { changes, shown } = await apply(FILE);
    expect(changes.map(({ kind, what }) => `${kind} ${what}`)).toEqual([
      "create model fast-chat",
      "create model org/embed",
      "create account up",
      "create account cloud",
      "create account sim",
      "create group default",
      "create group empty",
      "create user ops@example.com",
      "create user dev@example.com",
      "create key ci of ops@example.com",
      "create key made",
    ]);
    expect(shown.map(({ name }) => name)).toEqual(["made"]);

    const { models, accounts, groups } = await readPolicy(gateway.db);
    expect(models.map(({ id }) => id).sort()).toEqual(["fast-chat", "org/embed"]);
    const up = accounts.find(({ name }) => name === "up");
    expect(unseal(gateway.keyring, accountCredentialBinding(up?.id ?? ""), up?.sealedCredential ?? "")).toBe(
      SECRETS.UPSTREAM_KEY,
    );
    const group = groups.find(({ name }) => name === "default");
    expect(group?.models).toEqual(["org/embed", "fast-chat"]);
    expect(group?.accounts.map((id) => accounts.find((account) => account.id === id)?.name)).toEqual([
      "sim",
      "up",
    ]);
    expect((await listUsers(gateway.db)).map(({ email, role }) => `${email} ${role}`)).toEqual([
      "ops@example.com admin",
      "dev@example.com user",
    ]);
  });

  test("a created key has the digest of its shown secret, an imported key that of its own", async () => {
    const { shown } = await apply(FILE);
    const digests = (await listKeys(gateway.db)).map(({ digest }) => digest);
    expect(digests).toContain(gateway.digest(shown[0]?.secret ?? ""));
    expect(digests).toContain(gateway.digest(SECRETS.CI_KEY));
  });

  test("no part of an imported secret is stored for display", async () => {
    await apply(FILE);
    const ci = (await listKeys(gateway.db)).find(({ name }) => name === "ci");
    expect(SECRETS.CI_KEY).not.toContain(ci?.publicId ?? "");
    expect(ci?.last4).toBe("");
  });

  test("applying twice changes nothing, not even a revision", async () => {
    await apply(FILE);
    const before = await readRevisions(gateway.db);
    const { changes, shown } = await apply(FILE);
    expect(changes).toEqual([]);
    expect(shown).toEqual([]);
    expect(await readRevisions(gateway.db)).toEqual(before);
  });

  test("changes only what differs, reported by field in the format of the file", async () => {
    await apply(FILE);
    const changed = FILE.replace(
      "models: { fast-chat: gpt-x,",
      "priority: 7\n    models: { fast-chat: gpt-y,",
    )
      .replace('input: "0.15"', 'input: "0.20"')
      .replace("accounts: [sim, up]", "accounts: [up]");
    const { changes } = await apply(changed);
    expect(summary(changes)).toEqual([
      "change model fast-chat: price",
      "change account up: priority models",
      "change group default: accounts",
    ]);
    expect(changes[2]?.fields).toEqual([{ field: "accounts", from: "[sim, up]", to: "[up]" }]);
    expect((await apply(changed)).changes).toEqual([]);
  });

  test("a field removed from the file returns to its default", async () => {
    await apply(FILE);
    const { changes } = await apply(FILE.replace("    priority: 2\n", ""));
    expect(changes[0]?.fields).toEqual([{ field: "priority", from: "2", to: "1" }]);
  });

  test("the order of interfaces and of map entries does not matter", async () => {
    await apply(FILE);
    const shuffled = FILE.replace("[chat, responses]", "[responses, chat]").replace(
      '{ fast-chat: gpt-x, "gpt-*": "gpt-*" }',
      '{ "gpt-*": "gpt-*", fast-chat: gpt-x }',
    );
    expect((await planned(shuffled)).changes).toEqual([]);
  });

  test("a new credential or password is reported as changed and takes effect", async () => {
    await apply(FILE_WITH_PASSWORD);
    const environment = { ...SECRETS, UPSTREAM_KEY: "sk-other", OPS_PASSWORD: "another long password" };
    const { changes } = await apply(FILE_WITH_PASSWORD, false, environment);
    expect(changes.map(({ what, fields }) => [what, fields])).toEqual([
      ["account up", [{ field: "credential", from: "(changed)", to: "(changed)" }]],
      ["user ops@example.com", [{ field: "password", from: "(changed)", to: "(changed)" }]],
    ]);
    expect((await planned(FILE_WITH_PASSWORD, false, environment)).changes).toEqual([]);
    const ops = (await listUsers(gateway.db)).find(({ role }) => role === "admin");
    expect(await Bun.password.verify(environment.OPS_PASSWORD, ops?.passwordHash ?? "")).toBe(true);
  });

  test("an omitted credential or password is kept", async () => {
    await apply(FILE_WITH_PASSWORD);
    const without = FILE_WITH_PASSWORD.replace(/^ +(credential|password): .*\n/gm, "");
    expect((await planned(without)).changes).toEqual([]);
  });

  test("records that the file does not name are unchanged and can be referenced", async () => {
    await apply(FILE);
    await apply(
      "groups: [{ name: second, models: [fast-chat], accounts: [up] }]\nkeys: [{ name: k, group: default }]",
    );
    const { groups } = await readPolicy(gateway.db);
    expect(groups.map(({ name }) => name).sort()).toEqual(["default", "empty", "second"]);
  });
});

describe("access to groups", () => {
  const OPEN = `
groups:
  - { name: open }
  - { name: inner, access: members }
users:
  - { email: ops@example.com, groups: [inner, open] }
  - { email: dev@example.com }
`;

  test("access and memberships are stored, and a group may be named before it is created", async () => {
    await apply(OPEN);
    const { groups, users } = await readState(gateway.db);
    const ids = new Map(groups.map(({ name, id }) => [name, id]));
    expect(groups.map(({ name, access }) => [name, access])).toEqual([
      ["open", "everyone"],
      ["inner", "members"],
    ]);
    expect(users.map(({ groups: of }) => of)).toEqual([[ids.get("inner") ?? "", ids.get("open") ?? ""], []]);
  });

  test("a difference shows access and memberships in the format of the file", async () => {
    await apply(OPEN);
    const { changes } = await planned(
      OPEN.replace("groups: [inner, open]", "groups: [inner]").replace(", access: members", ""),
    );
    expect(changes.map(({ what, fields }) => [what, fields])).toEqual([
      ["group inner", [{ field: "access", from: "members", to: "everyone" }]],
      ["user ops@example.com", [{ field: "groups", from: "[inner, open]", to: "[inner]" }]],
    ]);
  });

  test("the export matches the file, and applying it changes nothing", async () => {
    await apply(OPEN);
    const text = await exportFile(gateway.db);
    expect(text).toContain("access: members");
    expect(text).toContain("groups: [ inner, open ]");
    expect((await planned(text, true)).changes).toEqual([]);
  });

  test("an unknown or repeated group is rejected with its position", async () => {
    expect(await rejections(OPEN.replace("[inner, open]", "[iner]"))).toEqual([
      '6 users[0].groups[0]: the group "iner" does not exist. Did you mean "inner"?',
    ]);
    expect(await rejections(OPEN.replace("[inner, open]", "[inner, inner]"))).toEqual([
      '6 users[0].groups[1]: lists the group "inner" twice. Remove one of them.',
    ]);
  });

  test("pruning a group removes its members from it", async () => {
    await apply(OPEN);
    await apply("groups: [{ name: open }]\nusers: [{ email: ops@example.com, groups: [open] }]", true);
    expect((await readState(gateway.db)).users.map(({ groups: of }) => of.length)).toEqual([1]);
  });
});

describe("limits", () => {
  const LIMITED = `
accounts:
  - name: sim
    kind: simulator
    limits: { concurrency: 50, rpm: 500, tpm: 200000 }
groups:
  - name: default
    accounts: [sim]
    limits:
      concurrency: 20
      windows: [{ per: 1d, requests: 10000 }, { per: 5h, requests: 10, tokens: 99 }]
    group_limits: { tpm: 1000000, windows: [{ per: 7d, usd: "250" }] }
    queue: { max_waiting: 0, timeout: 90s }
users:
  - email: ops@example.com
    limits: { rpm: 7 }
keys:
  - name: ci
    user: ops@example.com
    group: default
    limits: { rpm: 60, concurrency: 5 }
`;

  test("limits of accounts, groups, users and keys are stored", async () => {
    await apply(LIMITED);
    const { accounts, groups } = await readPolicy(gateway.db);
    expect(accounts[0]?.limits).toEqual({ ...NO_RATE_LIMITS, concurrency: 50, rpm: 500, tpm: 200_000 });
    expect(groups[0]).toMatchObject({
      limits: {
        concurrency: 20,
        rpm: null,
        tpm: null,
        windows: [
          { perMs: 5 * 3_600_000, requests: 10, tokens: 99, nano: null },
          { perMs: 24 * 3_600_000, requests: 10_000, tokens: null, nano: null },
        ],
      },
      groupLimits: {
        ...NO_LIMITS,
        tpm: 1_000_000,
        windows: [{ perMs: 7 * 24 * 3_600_000, requests: null, tokens: null, nano: 250_000_000_000 }],
      },
      queue: { maxWaiting: 0, timeoutMs: 90_000 },
    });
    expect((await listUsers(gateway.db))[0]?.limits).toEqual({ ...NO_LIMITS, rpm: 7 });
    expect((await listKeys(gateway.db))[0]?.limits).toEqual({ ...NO_LIMITS, rpm: 60, concurrency: 5 });
  });

  test("a difference shows each changed limit and nothing else", async () => {
    await apply(LIMITED);
    const { changes } = await apply(
      LIMITED.replace("rpm: 500, tpm", "rpm: 400, tpm")
        .replace("requests: 10, tokens: 99", "requests: 11, tokens: 99")
        .replace("{ per: 1d, requests: 10000 }, ", "")
        .replace("timeout: 90s", "timeout: 2m")
        .replace('usd: "250"', 'usd: "249.999999999", tokens: 9')
        .replace("    limits: { rpm: 7 }\n", "")
        .replace("{ rpm: 60, concurrency: 5 }", "{ rpm: 60, tpm: 9 }"),
    );
    expect(changes.map(({ what, fields }) => [what, fields])).toEqual([
      ["account sim", [{ field: "limits.rpm", from: "500", to: "400" }]],
      [
        "group default",
        [
          { field: "limits.windows.5h", from: "10 requests and 99 tokens", to: "11 requests and 99 tokens" },
          { field: "limits.windows.1d", from: "10000 requests", to: null },
          { field: "group_limits.windows.7d", from: "$250.00", to: "9 tokens and $249.999999999" },
          { field: "queue.timeout", from: "90s", to: "2m" },
        ],
      ],
      ["user ops@example.com", [{ field: "limits.rpm", from: "7", to: null }]],
      [
        "key ci of ops@example.com",
        [
          { field: "limits.concurrency", from: "5", to: null },
          { field: "limits.tpm", from: null, to: "9" },
        ],
      ],
    ]);
    expect((await listKeys(gateway.db))[0]?.limits).toEqual({ ...NO_LIMITS, rpm: 60, tpm: 9 });
    expect((await listUsers(gateway.db))[0]?.limits).toEqual(NO_LIMITS);
  });

  test("the order of limits does not matter", async () => {
    await apply(LIMITED);
    const shuffled = LIMITED.replace(
      "[{ per: 1d, requests: 10000 }, { per: 5h, requests: 10, tokens: 99 }]",
      "[{ per: 5h, tokens: 99, requests: 10 }, { per: 1d, requests: 10000 }]",
    );
    expect((await planned(shuffled)).changes).toEqual([]);
  });

  test("the export matches the file, and applying it changes nothing", async () => {
    await apply(LIMITED);
    const text = await exportFile(gateway.db);
    expect(text).toContain("    limits: { concurrency: 50, rpm: 500, tpm: 200000 }\n");
    expect(text).toContain(
      "    limits: { concurrency: 20, windows: [ { per: 5h, requests: 10, tokens: 99 }, { per: 1d, requests: 10000 } ] }\n",
    );
    expect(text).toContain(
      '    group_limits: { tpm: 1000000, windows: [ { per: 7d, usd: "250.00" } ] }\n    queue: { max_waiting: 0, timeout: 90s }\n',
    );
    expect(text).toContain("    limits: { concurrency: 5, rpm: 60 }\n");
    expect((await planned(text, true, {})).changes).toEqual([]);
  });

  test("a key with a new secret gets its new limits", async () => {
    const withSecret = LIMITED.replace(
      "group: default\n    limits",
      `group: default\n    secret: \${CI_KEY}\n    limits`,
    );
    await apply(withSecret);
    const CI_KEY = "canary-another-key-0123456789-0123456789";
    const { changes } = await apply(withSecret.replace("rpm: 60", "rpm: 6"), false, { ...SECRETS, CI_KEY });
    expect(summary(changes)).toEqual(["change key ci of ops@example.com: limits.rpm secret"]);
    const active = (await listKeys(gateway.db)).find(({ status }) => status === "active");
    expect(active?.limits.rpm).toBe(6);
  });

  test("any limits survive export and apply", async () => {
    const limit = fc.option(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), { nil: undefined });
    const nano = fc.bigInt({ min: 1n, max: 9_000_000_000_000_000n });
    const usd = fc.option(nano.map(usdText), { nil: undefined });
    const window = (per: string) =>
      fc
        .record({ requests: limit, tokens: limit, usd })
        .filter((counts) => Object.values(counts).some((value) => value !== undefined))
        .map((counts) => ({ per, ...counts }));
    const limits = fc.record({
      concurrency: limit,
      rpm: limit,
      tpm: limit,
      windows: fc.shuffledSubarray(["5h", "1d", "7d", "30d"]).chain((pers) => fc.tuple(...pers.map(window))),
    });
    const queue = fc.record({
      max_waiting: fc.nat(1_000_000),
      timeout: fc.integer({ min: 1, max: 3_600_000 }).map((ms) => `${ms}ms`),
    });
    await fc.assert(
      fc.asyncProperty(limits, limits, limits, limits, queue, async (each, all, ofUser, ofKey, queue) => {
        const text = JSON.stringify({
          groups: [{ name: "g", limits: each, group_limits: all, queue }],
          users: [{ email: "a@b.c", limits: ofUser }],
          keys: [{ name: "k", user: "a@b.c", group: "g", limits: ofKey }],
        });
        await apply(text);
        expect((await planned(text)).changes).toEqual([]);
        expect((await planned(await exportFile(gateway.db), true, {})).changes).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });
});

describe("keys", () => {
  test("a changed group moves the key, which keeps its secret", async () => {
    await apply(FILE);
    const before = await listKeys(gateway.db);
    const { changes } = await apply(
      FILE.replace("  - name: made\n    group: default", "  - name: made\n    group: empty"),
    );
    expect(changes.map(({ what, fields }) => [what, fields])).toEqual([
      ["key made", [{ field: "group", from: "default", to: "empty" }]],
    ]);
    const digests = (keys: typeof before) => keys.map(({ digest }) => digest);
    expect(digests(await listKeys(gateway.db))).toEqual(digests(before));
  });

  test("a changed secret revokes the old key and creates a new one of the same name", async () => {
    await apply(FILE);
    const CI_KEY = "canary-another-key-0123456789-0123456789";
    const { changes } = await apply(FILE, false, { ...SECRETS, CI_KEY });
    expect(summary(changes)).toEqual(["change key ci of ops@example.com: secret"]);
    const keys = (await listKeys(gateway.db)).filter(({ name }) => name === "ci");
    expect(keys.map(({ status, digest }) => [status, digest])).toEqual([
      ["revoked", gateway.digest(SECRETS.CI_KEY)],
      ["active", gateway.digest(CI_KEY)],
    ]);
  });

  test("a revoked secret is not restored by applying the file again", async () => {
    await apply(FILE);
    const ci = (await listKeys(gateway.db)).find(({ name }) => name === "ci");
    await revokeKey(gateway.db, ci?.id ?? "", 1);
    const found = await rejections(FILE);
    expect(found).toHaveLength(1);
    expect(found[0]).toStartWith("38 keys[0].secret: this secret was revoked and cannot be used again.");
  });

  test("a revoked key without a secret in the file is created again with a new secret", async () => {
    const first = await apply(FILE);
    const made = (await listKeys(gateway.db)).find(({ name }) => name === "made");
    await revokeKey(gateway.db, made?.id ?? "", 1);
    const second = await apply(FILE);
    expect(second.shown.map(({ name }) => name)).toEqual(["made"]);
    expect(second.shown[0]?.secret).not.toBe(first.shown[0]?.secret);
  });

  test("a secret of another key is rejected", async () => {
    await apply(FILE);
    const found = await rejections(FILE.replace("- name: ci", "- name: renamed"));
    expect(found[0]).toContain('keys[0].secret: this secret is already used by the key "ci"');
  });

  test("the same name for another user is a different key", async () => {
    await apply(FILE);
    const { changes } = await apply("keys: [{ name: ci, group: default, user: DEV@example.com }]");
    expect(summary(changes)).toEqual(["create key ci of dev@example.com: group secret"]);
  });
});

describe("pruning", () => {
  const SMALL = `
models: [{ id: fast-chat, interfaces: [chat, responses] }]
accounts: [{ name: sim, kind: simulator }]
groups: [{ name: default, models: [fast-chat], accounts: [sim], on_disconnect: drain }]
users: [{ email: boss@example.com, role: admin }]
`;

  test("removes records that the file does not name, and all references to them", async () => {
    await apply(FILE);
    const { changes } = await apply(SMALL, true);
    expect(changes.filter(({ kind }) => kind === "remove").map(({ what }) => what)).toEqual([
      "key ci of ops@example.com",
      "key made",
      "user ops@example.com",
      "user dev@example.com",
      "group empty",
      "account up",
      "account cloud",
      "model org/embed",
    ]);
    const { models, accounts, groups } = await readPolicy(gateway.db);
    expect([models.length, accounts.length, groups.length]).toEqual([1, 1, 1]);
    expect((await listUsers(gateway.db)).map(({ email }) => email)).toEqual(["boss@example.com"]);
    expect((await listKeys(gateway.db)).map(({ status }) => status)).toEqual(["revoked", "revoked"]);
    expect((await planned(SMALL, true)).changes).toEqual([]);
  });

  test("unnamed records stay without it", async () => {
    await apply(FILE);
    expect((await planned(SMALL)).changes.filter(({ kind }) => kind === "remove")).toEqual([]);
  });

  test("a file cannot refer to a record that it prunes", async () => {
    await apply(FILE);
    const result = await plan("groups: [{ name: default, accounts: [up] }]", true);
    expect(result.ok).toBe(false);
  });

  test("a file without an administrator keeps the administrators", async () => {
    await apply(FILE);
    await apply(SMALL.replace(/^users.*$/m, ""), true);
    expect((await listUsers(gateway.db)).map(({ email }) => email)).toEqual(["ops@example.com"]);
  });

  test("an empty file does not remove everything", async () => {
    await apply(FILE);
    const result = await plan("# empty\n", true);
    expect(result.ok).toBe(false);
  });
});

describe("atomicity", () => {
  test("a plan made before another change is not applied", async () => {
    const made = await planned(FILE);
    await apply("models: [{ id: other, interfaces: [chat] }]");
    expect(applyChanges(gateway, made)).rejects.toBeInstanceOf(ConcurrentChangeError);
    expect((await readPolicy(gateway.db)).accounts).toEqual([]);
  });

  test("a failing step rolls the others back", async () => {
    const made = await planned(FILE);
    made.steps.push({
      kind: "change",
      what: "x",
      fields: [],
      write: () => Promise.reject(new Error("broken")),
    });
    expect(applyChanges(gateway, made)).rejects.toThrow("broken");
    expect((await readPolicy(gateway.db)).models).toEqual([]);
  });
});

describe("secrets in differences", () => {
  test("are never shown, neither on creation, nor on change, nor in errors", async () => {
    const changed = Object.fromEntries(
      Object.entries(SECRETS).map(([name, value]) => [name, `${value}-canary-2`]),
    );
    const seen: string[] = [];
    for (const environment of [SECRETS, changed, SECRETS]) {
      const result = await plan(FILE_WITH_PASSWORD, true, environment);
      if (!result.ok) {
        seen.push(JSON.stringify(result.problems));
        continue;
      }
      seen.push(JSON.stringify(result.plan.changes));
      await applyChanges(gateway, result.plan);
    }
    seen.push(await exportFile(gateway.db));
    expect(seen.join()).not.toContain("canary");
    expect(seen.join()).toContain("(changed)");
  });
});

describe("a group without on_disconnect", () => {
  const groupsFile = (charge: string, more = "") => `
models: [{ id: fast-chat, interfaces: [chat], price: { input: "1", output: "2" } }]
accounts: [{ name: sim, kind: simulator }]
groups: [{ name: g, models: [fast-chat], accounts: [sim], billing: { charge: ${charge} }${more} }]
`;
  const policies = async () => {
    const { groups } = await readPolicy(gateway.db);
    const { onDisconnect, billing } = groups[0] ?? { onDisconnect: null, billing: NO_BILLING };
    const exported = /on_disconnect: (\w+)/.exec(await exportFile(gateway.db))?.[1] ?? null;
    return [onDisconnect ?? `${defaultOnDisconnect(billing.charge)} (default)`, exported];
  };

  test("drains if it charges and cancels if not, and its export omits the field", async () => {
    await apply(groupsFile("none"));
    expect(await policies()).toEqual(["cancel (default)", null]);
    await apply(groupsFile("balance"));
    expect(await policies()).toEqual(["drain (default)", null]);
    await apply(groupsFile("balance", ", on_disconnect: cancel"));
    expect(await policies()).toEqual(["cancel", "cancel"]);
  });
});

describe("exporting", () => {
  test("produces the original file without secrets", async () => {
    await apply(FILE_WITH_PASSWORD);
    const text = await exportFile(gateway.db);
    expect(text).toContain("  - name: up\n    # credential: stored, not exported\n    kind: openai\n");
    expect(text).toContain(
      "  - email: ops@example.com\n    # password: stored, not exported\n    role: admin\n",
    );
    expect(text).toContain('price: { input: "0.15", cached_input: "0.075", output: "0.60" }');
    expect(text).toContain("models: [ org/embed, fast-chat ]");
  });

  test("applying the export changes nothing, even with pruning", async () => {
    await apply(FILE_WITH_PASSWORD);
    const text = await exportFile(gateway.db);
    expect((await planned(text, false, {})).changes).toEqual([]);
    expect((await planned(text, true, {})).changes).toEqual([]);
  });

  test("a disabled account, a private network, a WebSocket and an empty installation are exported", async () => {
    expect((await planned(await exportFile(gateway.db), false, {})).changes).toEqual([]);
    await apply(FILE);
    expect(await exportFile(gateway.db)).toContain("private_network: true");
    expect(await exportFile(gateway.db)).toContain("enabled: false");
    expect(await exportFile(gateway.db)).toContain("websocket: true");
  });

  test("a group without WebSocket is exported, and a change is reported", async () => {
    const file = (websocket: boolean) => `groups: [{ name: g, websocket: ${websocket} }]`;
    await apply(file(true));
    expect(await exportFile(gateway.db)).not.toContain("websocket");
    expect((await planned(file(false), false, {})).changes).toMatchObject([
      { fields: [{ field: "websocket", from: "true", to: "false" }] },
    ]);
    await apply(file(false));
    expect(await exportFile(gateway.db)).toContain("websocket: false");
  });

  test("names that look like YAML, numbers or variables are read back unchanged", async () => {
    const name = fc
      .stringMatching(/^[!-~][ -~]{0,20}[!-~]$/)
      .filter((text) => text.trim() === text && text !== "__proto__");
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(name, { minLength: 1, maxLength: 4 }), async (names) => {
        for (const [i, accountName] of names.entries()) {
          const change = { name: accountName, priority: i, models: { a: `b-$\${C}` }, createdAtMs: i };
          await putAccount(gateway.db, accountRecord(`acct_${accountName}`, change));
        }
        expect((await planned(await exportFile(gateway.db), true, {})).changes).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });
});
