/**
 * A key that is rejected thousands of times fills neither the usage rows nor the disk, and every rejection is counted.
 */

import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

const REQUESTS = 5_000;
const AT_ONCE = 50;
/** About what a client sends, with the head. */
const REQUEST_BYTES = 300;
/** The attack can cross the end of a minute, or of two on a busy machine. */
const MINUTES_MAX = 3;
const MODELS_PER_HOUR = 50;
const ROWS_PER_MINUTE = 60;
const MIB = 1024 * 1024;

const FILE = `
models:
  - { id: fast, interfaces: [chat, responses] }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, models: { fast: sim-fast } }
groups:
  - { name: default, models: [fast], accounts: [sim] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY}, limits: { rpm: 1 } }
`;

test(
  "5,000 rejected requests of one key create a bounded number of usage rows",
  async () => {
    const target = await startAttackTarget({ file: FILE });
    try {
      const first = await measureAttack("refusals over rpm", target, {
        bytes: REQUESTS * REQUEST_BYTES,
        run: () =>
          sendAll(target, (number) => [
            "/v1/chat/completions",
            { model: "fast", messages: [{ role: "user", content: `${number}` }] },
          ]),
      });
      const second = await measureAttack("refusals that name a new model each", target, {
        bytes: REQUESTS * REQUEST_BYTES,
        run: () =>
          sendAll(target, (number) =>
            number % 2 === 0
              ? ["/v1/chat/completions", { model: `made-up-${number}`, messages: [] }]
              : ["/v1/responses", { model: `made-up-${number}`, input: "x" }],
          ),
      });
      await endProcess(target);
      const { rows, refused, rolledUp, modelsOfHour } = readRejections(target);
      console.log(`refused ${refused} requests in ${rows} rows`);
      // The first request of a minute is admitted.
      expect(refused).toBeGreaterThanOrEqual(2 * REQUESTS - MINUTES_MAX);
      expect(rolledUp).toBe(refused);
      // Two kinds: over the limit, and an unknown model at two endpoints.
      expect(rows).toBeLessThanOrEqual(MINUTES_MAX * (2 * ROWS_PER_MINUTE + 3));
      // Each name has rows of its own in the roll-ups, which charts read at once.
      expect(modelsOfHour).toBeLessThanOrEqual(MODELS_PER_HOUR + 1);
      // With one row for each request it was 4.9 MiB.
      expect(first.diskGrowthBytes + second.diskGrowthBytes).toBeLessThan(3 * MIB);
    } finally {
      await target.stop();
    }
  },
  { timeout: 60_000 },
);

async function sendAll(
  { url }: AttackTarget,
  build: (number: number) => readonly [path: string, body: object],
): Promise<void> {
  let sent = 0;
  const work = async () => {
    while (sent < REQUESTS) {
      const [path, body] = build(sent++);
      const response = await fetch(url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      await response.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** Counted rows are written at the end of their minute and at shutdown. */
async function endProcess({ pid }: AttackTarget): Promise<void> {
  process.kill(pid, "SIGTERM");
  await eventually(() => !isRunning(pid));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

interface Rejections {
  readonly rows: number;
  readonly refused: number;
  readonly rolledUp: number;
  /** The most models that one hour of a roll-up names. */
  readonly modelsOfHour: number;
}

function readRejections({ folder }: AttackTarget): Rejections {
  const file = readdirSync(folder, { recursive: true, encoding: "utf8" }).find((name) =>
    name.endsWith(".db"),
  );
  const db = new Database(join(folder, file ?? "missing"));
  try {
    const columns = db.query("SELECT name FROM pragma_table_info('usage_row')").all() as { name: string }[];
    const count = columns.some(({ name }) => name === "request_count") ? "SUM(request_count)" : "COUNT(*)";
    const [listed] = db
      .query(`SELECT COUNT(*) AS rows, ${count} AS refused FROM usage WHERE outcome = 'refused'`)
      .all() as { rows: number; refused: number }[];
    const [summed] = db.query("SELECT SUM(refused) AS refused FROM usage_hour").all() as {
      refused: number;
    }[];
    const hours = db
      .query("SELECT COUNT(DISTINCT public_model) AS models FROM usage_hour GROUP BY hour_ms")
      .all() as { models: number }[];
    return {
      rows: listed?.rows ?? 0,
      refused: listed?.refused ?? 0,
      rolledUp: summed?.refused ?? 0,
      modelsOfHour: Math.max(...hours.map(({ models }) => models)),
    };
  } finally {
    db.close();
  }
}
