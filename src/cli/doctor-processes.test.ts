import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkProcesses } from "./doctor-processes.ts";

const dataDir = mkdtempSync(join(tmpdir(), "model-gateway-doctor-"));
afterAll(() => rmSync(dataDir, { recursive: true }));

test("doctor reports a kernel that loses connections when one of several processes is replaced", () => {
  expect(checkProcesses({ dataDir }, () => "0")).toEqual([]);
  mkdirSync(join(dataDir, "processes/1"), { recursive: true });
  expect(checkProcesses({ dataDir }, () => "1")).toMatchObject([{ state: "good" }]);
  expect(checkProcesses({ dataDir }, () => "0")).toMatchObject([
    { state: "doubtful", todo: expect.stringContaining("sysctl -w net.ipv4.tcp_migrate_req=1") },
  ]);
  expect(checkProcesses({ dataDir }, () => null)).toMatchObject([{ todo: "Use Linux 5.14 or later." }]);
});
