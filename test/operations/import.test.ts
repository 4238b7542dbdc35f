/** People come from another gateway: their keys work unchanged, with their balances and without new rights. */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM_FILE } from "../../src/cli/command-line.test-support.ts";
import { litellm, litellmFormerSecret, litellmKey } from "../../src/cli/import/litellm.test-support.ts";
import { newApi, storedKey } from "../../src/cli/import/new-api.test-support.ts";
import {
  type SourceContent,
  writeServer,
  writeSqlite,
} from "../../src/cli/import/source-tables.test-support.ts";
import { eventually } from "../support/eventually.ts";
import { startMariaDb } from "../support/mariadb.ts";
import { startPostgres } from "../support/postgres.ts";
import { readProcessResult } from "../support/process-result.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-import-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The key as people have it, and another one that may use one model only. */
const KEY = "sk-1234567890abcdefghijkl";
const ROTATED_KEY = "sk-rotated-67890abcdefghi";
const FORMER_SECRET = "sk-former-567890abcdefghi";
const inDays = (count: number) => new Date(Date.now() + count * 86_400_000);
const NARROW_KEY = "sk-narrow-567890abcdefghi";

async function runImport(gateway: RunningGateway, ...args: readonly string[]): Promise<string> {
  const { settings } = gateway.installation;
  const env = {
    PATH: process.env.PATH ?? "",
    ...(settings.databaseUrl.startsWith("sqlite:") ? {} : { DATABASE_URL: settings.databaseUrl }),
  };
  const child = Bun.spawn([PROGRAM_FILE, "import", ...args, "--json", "--data", settings.dataDir], {
    env,
    stdout: "pipe",
    stderr: "pipe",
  });
  const { code, out, err } = await readProcessResult(child);
  if (code !== 0) throw new Error(err);
  return out;
}

/** A key is tried until the gateway has read it, which is not an attack here. */
function startGateway(databaseUrl: string | undefined): Promise<RunningGateway> {
  const limits = { badKeyTriesPerMinute: 10_000 };
  return startTestGateway(databaseUrl === undefined ? { limits } : { limits, databaseUrl });
}

/** A gateway with the simulator, and a source that names the simulator as its upstream. */
async function openBeside(open: Case["open"], describeSource: (upstream: string) => SourceContent) {
  // The address of the simulator is known first; the source is written before the gateway reads it.
  const target = await open({});
  const running = await startGateway(target.databaseUrl);
  const content = describeSource(new URL(running.simulator.url).origin);
  if (target.address.includes("://")) await writeServer(target.address, content);
  else writeSqlite(target.address, content);
  return {
    running,
    address: target.address,
    async stop() {
      await running.stop();
      await target.stop();
    },
  };
}

function ask(gateway: RunningGateway, secret: string, model: string): Promise<Response> {
  const body = { model, messages: [{ role: "user", content: "hello" }] };
  return gateway.call("/v1/chat/completions", body, { headers: { authorization: `Bearer ${secret}` } });
}

/** Servers of the source, and the database of the gateway beside it. */
interface Case {
  readonly name: string;
  open(content: SourceContent): Promise<{ address: string; databaseUrl?: string; stop(): Promise<void> }>;
}

const CASES: Case[] = [
  {
    name: "SQLite",
    async open(content) {
      const address = join(folder, `${crypto.randomUUID()}.db`);
      writeSqlite(address, content);
      return { address, stop: async () => {} };
    },
  },
  {
    name: "PostgreSQL",
    async open(content) {
      const source = await startPostgres();
      await writeServer(source.url, content);
      const target = await startPostgres();
      return {
        address: source.url,
        databaseUrl: target.url,
        async stop() {
          await source.stop();
          await target.stop();
        },
      };
    },
  },
];

/** LiteLLM runs on PostgreSQL; the others run on MySQL, too. */
const MARIADB: Case = {
  name: "MariaDB",
  async open(content) {
    const source = await startMariaDb();
    await writeServer(source.url, content);
    return { address: source.url, stop: source.stop };
  },
};

describe.each(CASES)("LiteLLM on $name", ({ open }) => {
  test("a key works with the secret that its owner has, and a restricted one stays restricted", async () => {
    const source = await open(
      litellm({
        teams: [{ team_id: "t1", team_alias: "research", models: [], blocked: false }],
        users: [{ user_id: "u1", user_email: "ada@example.com", models: [] }],
        days: [{ id: "d1", date: "2026-10-02", spend: 0.5 }],
        keys: [
          litellmKey(KEY, { key_alias: "laptop", team_id: "t1", user_id: "u1" }),
          litellmKey(ROTATED_KEY, { key_alias: "rotated", team_id: "t1" }),
          litellmKey(NARROW_KEY, { key_alias: "narrow", team_id: "t1", models: ["old-fast"], rpm_limit: 2 }),
        ],
        formerSecrets: [
          litellmFormerSecret(FORMER_SECRET, { now: ROTATED_KEY, until: inDays(1) }),
          litellmFormerSecret(`${FORMER_SECRET}-ended`, { now: ROTATED_KEY, until: inDays(-1) }),
        ],
      }),
    );
    const gateway = await startGateway(source.databaseUrl);
    try {
      const config = join(folder, "config.yaml");
      const params = (model: string) => ({
        model: `openai/${model}`,
        api_base: gateway.simulator.url,
        api_key: "upstream-credential",
      });
      writeFileSync(
        config,
        JSON.stringify({
          model_list: [
            { model_name: "old-chat", litellm_params: params("sim-fast") },
            { model_name: "old-fast", litellm_params: params("sim-fast-2") },
          ],
        }),
      );
      const command = ["litellm", "--from", source.address, "--config", config];
      // The upstream is on this machine, which only a file can allow. The import keeps this account.
      const models = '{ old-chat: "sim-fast", old-fast: "sim-fast-2" }';
      await gateway.apply(
        `accounts: [{ name: openai-1, kind: openai, base_url: "${gateway.simulator.url}", private_network: true, models: ${models} }]`,
      );
      const { spent_by_month: spent } = JSON.parse(await runImport(gateway, ...command));
      expect(spent).toEqual([{ month: "2026-10", usd: "0.50" }]);
      await eventually(async () => (await ask(gateway, KEY, "old-chat")).status, { equals: 200 });
      expect((await ask(gateway, KEY, "old-chat")).status).toBe(200);
      expect((await ask(gateway, NARROW_KEY, "old-chat")).status).toBe(404);
      expect((await ask(gateway, NARROW_KEY, "old-fast")).status).toBe(200);
      // A replaced secret that still works there works here, and the one that replaced it stays the secret of the key.
      expect((await ask(gateway, FORMER_SECRET, "old-chat")).status).toBe(200);
      expect((await ask(gateway, `${FORMER_SECRET}-ended`, "old-chat")).status).toBe(401);
      expect((await ask(gateway, ROTATED_KEY, "old-chat")).status).toBe(200);
      // The first use replaced the plain hash.
      await eventually(async () => {
        const rows = await gateway.installation.db
          .sql`SELECT digest FROM api_key WHERE digest LIKE 'sha256:%'`;
        return rows.length === 0;
      });
      expect((await ask(gateway, KEY, "old-chat")).status).toBe(200);
      expect(JSON.parse(await runImport(gateway, ...command))).toMatchObject({ changes: [], top_ups: [] });
      expect((await ask(gateway, `${KEY}x`, "old-chat")).status).toBe(401);
    } finally {
      await gateway.stop();
      await source.stop();
    }
  });
});

describe.each([...CASES, MARIADB])("new-api on $name", ({ open }) => {
  test("a key works unchanged and pays from the balance of its owner, and a second import adds nothing", async () => {
    const gateway = await openBeside(open, (upstream) =>
      newApi({
        channels: [{ id: 1, name: "sim", key: "upstream", models: "sim-fast,sim-slow", base_url: upstream }],
        options: [
          { key: "ModelRatio", value: '{"sim-fast":1,"sim-slow":1}' },
          { key: "CompletionRatio", value: '{"sim-fast":1,"sim-slow":1}' },
        ],
        users: [{ id: 2, username: "ada", email: "ada@example.com", quota: 1_234_567 }],
        tokens: [
          { id: 1, user_id: 2, key: storedKey("a"), name: "laptop" },
          {
            id: 2,
            user_id: 2,
            key: storedKey("b"),
            name: "narrow",
            model_limits_enabled: true,
            model_limits: "sim-fast",
          },
          { id: 3, user_id: 2, key: storedKey("c"), name: "elsewhere", allow_ips: "192.0.2.0/24" },
          { id: 4, user_id: 2, key: storedKey("d"), name: "here", allow_ips: "127.0.0.1\n::1" },
        ],
        logs: [
          { id: 1, created_at: Date.UTC(2026, 8, 30, 23, 59, 59) / 1_000, type: 2, quota: 250_000 },
          { id: 2, created_at: Date.UTC(2026, 9, 1) / 1_000, type: 2, quota: 500_000 },
        ],
      }),
    );
    const { running, address } = gateway;
    try {
      // The upstream is on this machine, which only a file can allow. The import keeps this account.
      const models = '{ sim-fast: "sim-fast", sim-slow: "sim-slow" }';
      await running.apply(
        `accounts: [{ name: old-sim 1, kind: openai, base_url: "${running.simulator.url}", private_network: true, models: ${models} }]`,
      );
      const command = ["new-api", "--from", address, "--prefix", "old-"];
      const report = JSON.parse(await runImport(running, ...command));
      expect(report.top_ups).toEqual([
        { email: "ada@example.com", usd: "2.469134", order: "import-new-api:2" },
      ]);
      expect(report.spent_by_month).toEqual([
        { month: "2026-09", usd: "0.50" },
        { month: "2026-10", usd: "1.00" },
      ]);
      const [key, narrow] = [`sk-${storedKey("a")}`, `sk-${storedKey("b")}`];
      await eventually(async () => (await ask(running, key, "sim-slow")).status, { equals: 200 });
      expect((await ask(running, narrow, "sim-slow")).status).toBe(404);
      expect((await ask(running, narrow, "sim-fast")).status).toBe(200);
      expect((await ask(running, `sk-${storedKey("c")}`, "sim-fast")).status).toBe(403);
      expect((await ask(running, `sk-${storedKey("d")}`, "sim-fast")).status).toBe(200);
      const headers = { authorization: `Bearer ${key}` };
      const usage = await running.call("/v1/usage", undefined, { headers });
      const { billing } = (await usage.json()) as { billing: object };
      expect(billing).toMatchObject({ mode: "balance", balance: expect.stringMatching(/^2\.46/) });
      expect(JSON.parse(await runImport(running, ...command))).toMatchObject({ changes: [], top_ups: [] });
    } finally {
      await gateway.stop();
    }
  });
});
