/** Selects rows by a list of ids. */

import { Cache } from "../../base/cache.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { type Db, type Engine, placeholder, type Row, type SqlValue } from "./db.ts";

const IDS_PER_STATEMENT = 256;
/** Of a long list. SQLite runs on this thread, so other requests are served in between. */
const IDS_PER_TURN = 4 * IDS_PER_STATEMENT;

/**
 * `head` ends before the IN, `tail` follows it. `headValues` are the values of the placeholders in `head`. Lists are
 * padded to a power of two with their last id: few different statements then serve all lengths, and the engine can
 * keep them prepared.
 */
export async function selectIn(
  tx: Db,
  head: string,
  ids: readonly string[],
  tail = "",
  headValues: readonly SqlValue[] = [],
): Promise<Row[]> {
  const found: Row[] = [];
  for (let start = 0; start < ids.length; start += IDS_PER_STATEMENT) {
    if (start > 0 && start % IDS_PER_TURN === 0) await nextTurn();
    const chunk = ids.slice(start, start + IDS_PER_STATEMENT);
    const paddedLength = 2 ** Math.ceil(Math.log2(chunk.length));
    const last = chunk.at(-1) ?? "";
    while (chunk.length < paddedLength) chunk.push(last);
    const list = buildList(tx.engine, headValues.length + 1, paddedLength);
    const values = headValues.length === 0 ? chunk : [...headValues, ...chunk];
    for (const row of await tx.sql.text(`${head} IN (${list}) ${tail}`, values)) found.push(row);
  }
  return found;
}

const placeholderLists = new Cache<string, string>({ name: "placeholder lists", entriesMax: 1_000 });

function buildList(engine: Engine, first: number, count: number): string {
  const name = `${engine} ${first} ${count}`;
  return placeholderLists.getOrCreate(name, () =>
    Array.from({ length: count }, (_, index) => placeholder(engine, first + index)).join(", "),
  );
}
