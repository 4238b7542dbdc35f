/** People come from another gateway: their keys work unchanged, with their balances and without new rights. */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM_FILE } from "../../src/cli/command-line.test-support.ts";
import { litellm, litellmKey } from "../../src/cli/import/litellm.test-support.ts";
import {
  type SourceContent,
  writeServer,
  writeSqlite,
} from "../../src/cli/import/source-tables.test-support.ts";
import { eventually } from "../support/eventually.ts";
import { startPostgres } from "../support/postgres.ts";
import { readProcessResult } from "../support/process-result.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-import-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The key as people have it, and another one that may use one model only. */
const KEY = "sk-1234567890abcdefghijkl";
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

describe.each(CASES)("from $name", ({ open }) => {
  test("a key of LiteLLM works with the secret that its owner has, and a restricted one stays restricted", async () => {
    const source = await open(
      litellm({
        teams: [{ team_id: "t1", team_alias: "research", models: [], blocked: false }],
        users: [{ user_id: "u1", user_email: "ada@example.com", models: [] }],
        keys: [
          litellmKey(KEY, { key_alias: "laptop", team_id: "t1", user_id: "u1" }),
          litellmKey(NARROW_KEY, { key_alias: "narrow", team_id: "t1", models: ["old-fast"], rpm_limit: 2 }),
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
      const report = JSON.parse(await runImport(gateway, ...command));
      expect(report.notes.join()).toContain("private_network");
      // The upstream is on this machine, which only a file can allow.
      const models = '{ old-chat: "sim-fast", old-fast: "sim-fast-2" }';
      await gateway.apply(
        `accounts: [{ name: openai-1, kind: openai, base_url: "${gateway.simulator.url}", private_network: true, models: ${models} }]`,
      );
      await eventually(async () => (await ask(gateway, KEY, "old-chat")).status === 200);
      expect((await ask(gateway, KEY, "old-chat")).status).toBe(200);
      expect((await ask(gateway, NARROW_KEY, "old-chat")).status).toBe(404);
      expect((await ask(gateway, NARROW_KEY, "old-fast")).status).toBe(200);
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
