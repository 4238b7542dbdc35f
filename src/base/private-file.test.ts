import { afterAll, expect, test } from "bun:test";
import { chownSync, closeSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openPrivateFile } from "./private-file.ts";

const folder = mkdtempSync(join(tmpdir(), "model-gateway-private-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a file is created for its owner alone, and an existing one is opened", () => {
  const path = join(folder, "new");
  for (const flags of ["a", "w", "a"] as const) closeSync(openPrivateFile(path, flags));
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(() => openPrivateFile(path, "wx")).toThrow("EEXIST");
});

test.if(process.getuid?.() === 0)(
  "root gives no file away that a link of the folder's owner points to",
  () => {
    const target = join(folder, "of-root");
    writeFileSync(target, "");
    const data = mkdtempSync(join(folder, "data-"));
    chownSync(data, 65_534, 65_534);
    symlinkSync(target, join(data, "new-keys"));
    closeSync(openPrivateFile(join(data, "new-keys"), "a"));
    expect(statSync(target).uid).toBe(0);
    closeSync(openPrivateFile(join(data, "gateway.db"), "a"));
    expect(statSync(join(data, "gateway.db")).uid).toBe(65_534);
  },
);
