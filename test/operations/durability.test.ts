/** `DURABILITY=store`: clients see no end of a paid response that PostgreSQL does not have, however long it takes. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { openDb, transaction } from "../../src/store/engine/db.ts";
import { doneId, startPaidGateway } from "../support/paid-gateway.ts";
import { startPostgres } from "../support/postgres.ts";

setDefaultTimeout(60_000);

/** Much longer than a settlement may take before the journal of the node is enough. */
const LOCKED_MS = 2_000;
const REQUEST = { model: "paid", messages: [{ role: "user", content: "Hello" }] };

/** Sends a request while nothing can be written to the ledger. Returns whether it ended before that was over. */
async function endsWithoutStore(durability: string, stream: boolean): Promise<boolean> {
  const postgres = await startPostgres();
  const environment = { DURABILITY: durability };
  const gateway = await startPaidGateway({ balance: "100" }, { databaseUrl: postgres.url, environment });
  const other = await openDb(postgres.url);
  const complete = async (body: object) => doneId(await gateway.call("/v1/chat/completions", body));
  try {
    // The first request of a user takes its hold from the database; the next one has a reservation.
    await complete(REQUEST);
    const { ended, response } = await transaction(other, async (tx) => {
      await tx.sql`LOCK TABLE entry IN EXCLUSIVE MODE`;
      const response = complete({ ...REQUEST, stream });
      const ended = await Promise.race([response.then(() => true), Bun.sleep(LOCKED_MS).then(() => false)]);
      return { ended, response: { id: response } };
    });
    const requestId = await response.id;
    if (!ended) expect(await gateway.records.findRow(requestId)).toMatchObject({ outcome: "completed" });
    return ended;
  } finally {
    await other.close();
    await gateway.stop();
    await postgres.stop();
  }
}

test.each([true, false])("an end waits until the database has its charge (stream: %p)", async (stream) => {
  expect(await endsWithoutStore("store", stream)).toBe(false);
});

test("by default, the journal of the node is enough", async () => {
  expect(await endsWithoutStore("process", true)).toBe(true);
});
