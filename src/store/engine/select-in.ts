import { type Db, type Engine, placeholder, type Row, type SqlValue } from "./db.ts";

const IDS_PER_STATEMENT = 256;

/**
 * `head` ends before the IN, `tail` follows it. Lists are filled up to a power of two with their last id: few
 * different statements then serve all lengths, and the engine keeps them prepared. `given` are the values of the
 * placeholders that `head` has.
 */
export async function selectIn(
  tx: Db,
  head: string,
  ids: readonly string[],
  tail = "",
  given: readonly SqlValue[] = [],
): Promise<Row[]> {
  const found: Row[] = [];
  for (let start = 0; start < ids.length; start += IDS_PER_STATEMENT) {
    const chunk = ids.slice(start, start + IDS_PER_STATEMENT);
    const wanted = 2 ** Math.ceil(Math.log2(chunk.length));
    const last = chunk.at(-1) ?? "";
    while (chunk.length < wanted) chunk.push(last);
    const list = listOf(tx.engine, given.length + 1, wanted);
    const values = given.length === 0 ? chunk : [...given, ...chunk];
    for (const row of await tx.sql.text(`${head} IN (${list}) ${tail}`, values)) found.push(row);
  }
  return found;
}

const knownLists = new Map<string, string>();

function listOf(engine: Engine, first: number, count: number): string {
  const name = `${engine} ${first} ${count}`;
  const known = knownLists.get(name);
  if (known !== undefined) return known;
  const made = Array.from({ length: count }, (_, index) => placeholder(engine, first + index)).join(", ");
  knownLists.set(name, made);
  return made;
}
