import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildTestSettlement } from "./direct-billing.test-support.ts";
import { listOrphanedSpools, SettlementSpool } from "./settlement-spool.ts";

let dir: string;
let file: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "gateway-spool-"));
  file = join(dir, "settlements-inc_1.jsonl");
});

afterEach(() => rmSync(dir, { recursive: true }));

async function left(): Promise<string[]> {
  const spools = await listOrphanedSpools(dir, () => false);
  expect(spools.map(({ torn, unreadable }) => torn + unreadable)).toEqual(spools.map(() => 0));
  return spools.flatMap(({ settlements }) => settlements.map(({ row }) => row.requestId));
}

/** The file is created in the background; later operations are queued after that. */
async function made() {
  const spool = new SettlementSpool(dir, "inc_1");
  await spool.clear();
  return spool;
}

test("settlements use the disk space that the file reserved when it was created", async () => {
  const spool = await made();
  const { size, blocks } = statSync(file);
  await spool.add([buildTestSettlement("r1", 30n), buildTestSettlement("r2", 30n)]);
  await spool.add([buildTestSettlement("r3", 30n)]);
  expect(statSync(file)).toMatchObject({ size, blocks });
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  expect(await left()).toEqual(["r1", "r2", "r3"]);
  await spool.close();
});

test("the file grows beyond the reserved space and shrinks when everything is booked", async () => {
  const spool = await made();
  const { size } = statSync(file);
  const ids = Array.from({ length: 1_000 }, (_, index) => `r${index}`);
  await spool.add(ids.map((id) => buildTestSettlement(id, 30n)));
  expect(statSync(file).size).toBeGreaterThan(size);
  expect(await left()).toEqual(ids);
  await spool.clear();
  expect(statSync(file).size).toBe(size);
  await spool.add([buildTestSettlement("next", 30n)]);
  expect(await left()).toEqual(["next"]);
  await spool.close();
});

test("a clean stop leaves the unbooked settlements only", async () => {
  const spool = await made();
  await spool.add([buildTestSettlement("r1", 30n)]);
  await spool.close();
  expect(readFileSync(file, "utf8")).toEndWith("}\n");
  rmSync(file);
  const unused = await made();
  await unused.close();
  expect(existsSync(file)).toBe(false);
});

test("a process that dies leaves the settlements it wrote", async () => {
  const spool = await made();
  expect(await left()).toEqual([]);
  await spool.add([buildTestSettlement("r1", 30n)]);
  expect(await left()).toEqual(["r1"]);
  await spool.close();
});
