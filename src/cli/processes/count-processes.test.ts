import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Failure } from "../command.ts";
import { countProcesses, readCpuLimit } from "./count-processes.ts";

const POSTGRES = "postgres://gateway@db/gateway";
const linux = { platform: "linux" as const, countCores: () => 8 };

function fail(work: () => unknown): Failure {
  try {
    work();
  } catch (error) {
    if (error instanceof Failure) return error;
  }
  throw new Error("it did not fail");
}

describe("the number of processes", () => {
  test("is one for each core with auto, and otherwise as set", () => {
    expect(countProcesses({ processes: "auto", databaseUrl: POSTGRES }, linux)).toBe(8);
    expect(countProcesses({ processes: 3, databaseUrl: POSTGRES }, linux)).toBe(3);
  });

  test("is at most 64 with auto", () => {
    const large = { ...linux, countCores: () => 192 };
    expect(countProcesses({ processes: "auto", databaseUrl: POSTGRES }, large)).toBe(64);
  });

  test("of one needs no supervisor, on every system and database", () => {
    const mac = { ...linux, platform: "darwin" as const };
    expect(countProcesses({ processes: 1, databaseUrl: "sqlite:gateway.db" }, mac)).toBeNull();
  });

  test.each(["auto", 2] as const)("%p is rejected on SQLite and on other systems", (processes) => {
    const onSqlite = fail(() => countProcesses({ processes, databaseUrl: "sqlite:gateway.db" }, linux));
    expect([onSqlite.exitCode, onSqlite.message]).toEqual([
      2,
      "Several processes need PostgreSQL: only one process can use a SQLite database.",
    ]);
    const mac = { ...linux, platform: "darwin" as const };
    const onMac = fail(() => countProcesses({ processes, databaseUrl: POSTGRES }, mac));
    expect([onMac.exitCode, onMac.message]).toEqual([
      2,
      "Several processes on one port need Linux: other systems do not divide connections between processes.",
    ]);
  });
});

describe("the CPU limit", () => {
  const NONE = Number.POSITIVE_INFINITY;

  test.each([
    ["of a container is in the root", "0::/\n", { "": "150000 100000" }, 2],
    [
      "of a service is in its group",
      "0::/system.slice/gateway.service\n",
      { "system.slice/gateway.service": "300000 100000" },
      3,
    ],
    [
      "around a service counts as well",
      "0::/system.slice/gateway.service\n",
      { "system.slice": "100000 100000", "system.slice/gateway.service": "max 100000" },
      1,
    ],
    ["may be absent", "0::/user.slice\n", { "user.slice": "max 100000" }, NONE],
    ["of the first version of control groups is not read", "4:cpu:/gateway\n", {}, NONE],
  ])("%s", (_, membership, groups: Readonly<Record<string, string>>, cores) => {
    const folder = mkdtempSync(join(tmpdir(), "model-gateway-cgroups-"));
    const cgroups = join(folder, "groups");
    for (const [group, limit] of Object.entries(groups)) {
      mkdirSync(join(cgroups, group), { recursive: true });
      writeFileSync(join(cgroups, group, "cpu.max"), `${limit}\n`);
    }
    writeFileSync(join(folder, "membership"), membership);
    expect(readCpuLimit({ cgroups, membership: join(folder, "membership") })).toBe(cores);
    rmSync(folder, { recursive: true });
  });
});
