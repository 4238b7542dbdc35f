/** Random chains, payers, prices, faults and clients that disconnect: an oracle of its own judges every request. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eachEngine } from "../support/each-engine.ts";
import { openBillingRecords } from "../support/paid-gateway.ts";
import { startTestGateway } from "../support/running-gateway.ts";
import { expectNothingHeld } from "./fallback-gateway.ts";
import { judgeWorld, makeWorld, openRandom, sendRandom } from "./random-world.ts";

setDefaultTimeout(240_000);

const WORLDS = 8;
const REQUESTS = 30;
const AT_ONCE = 5;
const SEED = Number(process.env.FALLBACK_SEED ?? "20261118");

eachEngine((engine) => {
  test.each([
    ["direct", Number.POSITIVE_INFINITY],
    ["write-behind", 0],
  ])("every request has the price of the step that served it, with %s billing", async (_, busyHolds) => {
    let moved = 0;
    for (let i = 0; i < WORLDS; i++) {
      const random = openRandom(SEED + i);
      const world = makeWorld(random);
      const gateway = await startTestGateway({
        tokens: "o200k",
        file: world.file,
        databaseUrl: await engine.emptyUrl(),
        limits: { writeBehind: { ...limits.writeBehind, busyHolds }, firstByteTimeoutMs: 2_000 },
      });
      try {
        const lanes = Array.from({ length: AT_ONCE }, async () => {
          const seen = [];
          for (let n = 0; n < REQUESTS / AT_ONCE; n++) seen.push(await sendRandom(random, () => gateway.url));
          return seen;
        });
        const seen = (await Promise.all(lanes)).flat();
        await gateway.usageRows();
        const { db } = gateway.installation;
        const records = openBillingRecords(db);
        const judged = await judgeWorld(world, { db, records }, seen);
        await expectNothingHeld({ ...gateway, records });
        moved += judged.moved;
      } catch (cause) {
        throw new Error(`seed ${SEED + i}\n${world.file}`, { cause });
      } finally {
        await gateway.stop();
      }
    }
    expect(moved).toBeGreaterThan(WORLDS);
  });
});
