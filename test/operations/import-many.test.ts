/** Large imports: every key works with the secret of its owner, and killed imports book every balance once. */

import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM_FILE } from "../../src/cli/command-line.test-support.ts";
import { litellm, litellmKey } from "../../src/cli/import/litellm.test-support.ts";
import { newApi } from "../../src/cli/import/new-api.test-support.ts";
import { writeSqlite } from "../../src/cli/import/source-tables.test-support.ts";
import { eventually } from "../support/eventually.ts";
import { readProcessResult } from "../support/process-result.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(600_000);

const KEYS = 10_000;
const USERS = 2_000;
const KILLS = 4;
const CALLERS = 25;

const folder = mkdtempSync(join(tmpdir(), "model-gateway-import-many-"));
afterAll(() => rmSync(folder, { recursive: true }));

function spawnImport(gateway: RunningGateway, ...args: readonly string[]) {
  const { dataDir } = gateway.installation.settings;
  return Bun.spawn([PROGRAM_FILE, "import", ...args, "--json", "--data", dataDir], {
    env: { PATH: process.env.PATH ?? "" },
    stdout: "pipe",
    stderr: "pipe",
  });
}

async function runImport(gateway: RunningGateway, ...args: readonly string[]) {
  const { code, out, err } = await readProcessResult(spawnImport(gateway, ...args));
  if (code !== 0) throw new Error(err);
  return JSON.parse(out);
}

test("each of 10,000 keys of LiteLLM responds to the secret that its owner has", async () => {
  const secrets = Array.from({ length: KEYS }, (_, i) => `sk-${String(i).padStart(6, "0")}-abcdefghijklmno`);
  const address = join(folder, "litellm.db");
  writeSqlite(
    address,
    litellm({
      teams: [{ team_id: "t1", team_alias: "research", models: [], blocked: false }],
      keys: secrets.map((secret, i) => litellmKey(secret, { key_alias: `key ${i}`, team_id: "t1" })),
    }),
  );
  const config = join(folder, "config.yaml");
  const params = { model: "openai/gpt-4o", api_key: "upstream-credential" };
  writeFileSync(config, JSON.stringify({ model_list: [{ model_name: "chat", litellm_params: params }] }));
  // A key is tried until the gateway has read it, which is not an attack here.
  const gateway = await startTestGateway({ limits: { badKeyTriesPerMinute: 100_000 } });
  const listModels = async (secret: string) => {
    const response = await gateway.call("/v1/models", undefined, {
      headers: { authorization: `Bearer ${secret}` },
    });
    return `${response.status} ${await response.text()}`;
  };
  try {
    const command = ["litellm", "--from", address, "--config", config];
    const { changes } = await runImport(gateway, ...command);
    expect(changes.filter(({ what }: { what: string }) => what.startsWith("key "))).toHaveLength(KEYS);
    await eventually(async () => (await listModels(secrets.at(-1) ?? "")).startsWith("200"));
    const rest = [...secrets];
    const failures: string[] = [];
    const callAll = async () => {
      for (let secret = rest.pop(); secret !== undefined; secret = rest.pop()) {
        const response = await listModels(secret);
        if (!response.startsWith("200") || !response.includes('"chat"')) failures.push(response);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, callAll));
    expect(failures).toEqual([]);
    expect(await runImport(gateway, ...command)).toMatchObject({ changes: [] });
  } finally {
    await gateway.stop();
  }
});

test("an import that is killed again and again books each balance once, to the unit", async () => {
  const quotas = Array.from({ length: USERS }, (_, i) => 1 + ((i * 7_919_993) % 50_000_000));
  const address = join(folder, "new-api.db");
  writeSqlite(
    address,
    newApi({
      users: quotas.map((quota, i) => ({ id: i + 1, username: `u${i}`, email: `u${i}@example.com`, quota })),
    }),
  );
  const gateway = await startTestGateway();
  const { db } = gateway.installation;
  const readBooked = async () => {
    const [row] = await db.sql`
      SELECT COUNT(*) AS many, COALESCE(SUM(amount_nano), 0) AS sum FROM entry
      WHERE debit = 'topup:import-new-api'`;
    return { many: Number(row?.many), nano: BigInt(String(row?.sum)) };
  };
  try {
    const command = ["new-api", "--from", address];
    let killed = 0;
    for (let round = 1; round <= KILLS; round++) {
      const child = spawnImport(gateway, ...command);
      // The first ones end while the plan is made, the last ones while balances are booked.
      await eventually(
        async () => child.exitCode !== null || (await readBooked()).many >= (round - 1) * 400 + 1,
        120_000,
      );
      if (child.exitCode === null) killed += 1;
      child.kill("SIGKILL");
      await child.exited;
    }
    expect(killed).toBeGreaterThan(0);
    await runImport(gateway, ...command);
    const nano = quotas.reduce((sum, quota) => sum + BigInt(quota) * 2_000n, 0n);
    expect(await readBooked()).toEqual({ many: USERS, nano });
    expect(await runImport(gateway, ...command)).toMatchObject({ changes: [], top_ups: [] });
    expect(await readBooked()).toEqual({ many: USERS, nano });
  } finally {
    await gateway.stop();
  }
});
