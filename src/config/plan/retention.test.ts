import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../base/clock.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readResponsesKept } from "../../store/responses/response-retention.ts";
import { readUsageRowsKept } from "../../store/usage/usage-removal.ts";
import { exportFile } from "../export/export.ts";
import { parseGatewayFile } from "../parse/file.ts";
import { readState } from "../state/step.ts";
import { planRetention } from "./retention.ts";

const DAY_MS = 86_400_000;

let db: Db;
beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});
afterEach(() => db.close());

const parse = (text: string) => parseGatewayFile(text, { fileName: "gateway.yaml", environment: {} });

async function apply(text: string) {
  const parsed = parse(text);
  if (!parsed.ok) throw new Error(parsed.problems.map(({ message }) => message).join("\n"));
  const steps = planRetention(await readState(db), parsed.file);
  for (const step of steps) await step.write(db);
  return steps.map(({ kind, what, fields }) => ({ kind, what, fields }));
}

describe("the retention of usage rows", () => {
  test("is unlimited by default, and can be set and reset by the file", async () => {
    expect(await apply("models: []")).toEqual([]);
    expect(await readUsageRowsKept(db)).toBeNull();
    expect(await apply("retention: { usage_rows: 90d }")).toEqual([
      { kind: "change", what: "retention", fields: [{ field: "usage_rows", from: "forever", to: "90d" }] },
    ]);
    expect(await readUsageRowsKept(db)).toBe(90 * DAY_MS);
    expect(await apply("retention: { usage_rows: forever }")).toHaveLength(1);
    expect(await readUsageRowsKept(db)).toBeNull();
  });

  test("is unchanged if the file omits it, and by a second run", async () => {
    await apply("retention: { usage_rows: 2w }");
    expect(await apply("retention: { usage_rows: 14d }")).toEqual([]);
    expect(await apply("retention: {}")).toEqual([]);
    expect(await apply("models: []")).toEqual([]);
    expect(await readUsageRowsKept(db)).toBe(14 * DAY_MS);
  });

  test("is exported in the format in which it is read", async () => {
    expect(await exportFile(db, systemClock)).not.toContain("retention");
    await apply("retention: { usage_rows: 90d }");
    const text = await exportFile(db, systemClock);
    expect(text).toContain("usage_rows: 90d");
    expect(await apply(text)).toEqual([]);
  });

  test.each(["6d", "90", "soon", "0d", "-7d", ""])("rejects %p and names the valid format", (value) => {
    const parsed = parse(`retention: { usage_rows: "${value}" }`);
    expect(parsed.ok ? [] : parsed.problems.map(({ field, message }) => [field, message])).toEqual([
      ["retention.usage_rows", expect.stringContaining("a duration like 90d, at least 7d, or forever")],
    ]);
  });
});

describe("the retention of stored responses", () => {
  test("is 30 days by default, and can be set, switched off and exported", async () => {
    expect(await readResponsesKept(db)).toBe(30 * DAY_MS);
    expect(await apply("retention: { responses: 12h }")).toEqual([
      { kind: "change", what: "retention", fields: [{ field: "responses", from: "30d", to: "12h" }] },
    ]);
    expect(await readResponsesKept(db)).toBe(DAY_MS / 2);
    await apply("retention: { responses: none }");
    expect(await readResponsesKept(db)).toBe(0);
    const text = await exportFile(db, systemClock);
    expect(text).toContain("responses: none");
    expect(await apply(text)).toEqual([]);
    await apply("retention: { responses: 30d }");
    expect(await exportFile(db, systemClock)).not.toContain("retention");
  });

  test.each(["0d", "30", "forever", "1m", "400d", ""])("rejects %p and names the valid format", (value) => {
    const parsed = parse(`retention: { responses: "${value}" }`);
    expect(parsed.ok ? [] : parsed.problems.map(({ field, message }) => [field, message])).toEqual([
      ["retention.responses", expect.stringContaining("a duration like 30d, at most 365d, or none")],
    ]);
  });
});
