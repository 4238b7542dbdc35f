import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { snakeCase } from "../base/name-case.ts";
import type { ACCOUNT_FIELDS } from "./account.ts";
import type { ALERT_RULE_FIELDS } from "./alert-rules.ts";
import { createRecord } from "./fields.ts";
import { KEY_FIELDS } from "./key.ts";

test("a new record has the defaults of the fields that it does not set", () => {
  const values = {
    id: "k1",
    name: "ci",
    groupId: "g1",
    digest: "d",
    publicId: "p",
    last4: "",
    createdAtMs: 1,
  };
  const key = createRecord(KEY_FIELDS, { ...values, status: "active" });
  expect(Object.keys(key).sort()).toEqual(Object.keys(KEY_FIELDS).sort());
  expect([key.expiresAtMs, key.userId, key.limits.windows]).toEqual([null, null, []]);
});

const ROOT = join(import.meta.dir, "../..");
const FILES = ["src", "console"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => /\.(?:tsx?|sql)$/.test(path) && !/\.test(?:-support)?\.tsx?$/.test(path))
    .map((path) => join(folder, path)),
);

/** A switch without further rules. Its users count as well. */
test.each(["propagateTrace"] satisfies (keyof typeof ACCOUNT_FIELDS)[])(
  "at most six files name %s",
  (name) => {
    const pattern = new RegExp(`\\b(?:${name}|${snakeCase(name)})\\b`);
    const naming = FILES.filter((path) => pattern.test(readFileSync(join(ROOT, path), "utf8")));
    expect(naming).toContain("src/records/account.ts");
    expect(naming).toHaveLength(Math.min(naming.length, 6));
  },
);

/** Its declaration, its condition, and its texts in two languages. */
test.each(["fallbackRate"] satisfies (keyof typeof ALERT_RULE_FIELDS)[])(
  "at most four files name the alert rule %s",
  (name) => {
    const pattern = new RegExp(`\\b(?:${name}|${snakeCase(name)})\\b`);
    const naming = FILES.filter((path) => pattern.test(readFileSync(join(ROOT, path), "utf8")));
    expect(naming).toContain("src/records/alert-rules.ts");
    expect(naming).toHaveLength(Math.min(naming.length, 4));
  },
);
