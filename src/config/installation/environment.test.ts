import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { defaultDataDir, readSettings, type SettingSources } from "./environment.ts";

function resolveSettings(sources: Partial<SettingSources>) {
  const result = readSettings({ flags: {}, environment: {}, ...sources });
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result.settings;
}

describe("settings", () => {
  test("use the folder of the service by default in the Debian package", () => {
    expect(defaultDataDir("/usr/bin/model-gateway")).toBe("/var/lib/model-gateway");
    expect(defaultDataDir("/usr/local/bin/model-gateway")).toBe("data");
  });

  test("default to loopback, port 8787, ./data and SQLite in it", () => {
    expect(resolveSettings({})).toEqual({
      host: "127.0.0.1",
      port: 8787,
      publicUrl: "http://127.0.0.1:8787",
      allowedOrigins: [],
      allowedHosts: [],
      largeBodiesBytes: null,
      dataDir: resolve("data"),
      processes: 1,
      process: null,
      nodeDir: resolve("data"),
      databaseUrl: `sqlite:${resolve("data/gateway.db")}`,
      databaseListenUrl: "",
      redisUrl: null,
      onCoordinatorLoss: "share",
      masterKeyFile: resolve("data/master.key"),
      adminTokenFile: resolve("data/admin-token"),
      controlSocketFile: resolve("data/control.sock"),
      telemetry: null,
      accessLog: { mode: "off", sampleRatio: 0.01 },
      capture: { keptMs: 604_800_000, budgetBytes: 268_435_456, bodyBytesMax: 262_144, redactions: [] },
      durability: "process",
      drainDelayMs: 0,
    });
  });

  test("DURABILITY is process, disk or store", () => {
    expect(resolveSettings({ environment: { DURABILITY: "disk" } }).durability).toBe("disk");
    const result = readSettings({ flags: {}, environment: { DURABILITY: "tape" } });
    expect(result).toEqual({ ok: false, problems: ["DURABILITY must be process, disk or store."] });
  });

  test("the number of processes is auto or from 1 to 64; a flag overrides the variable and the file", () => {
    const environment = { PROCESSES: "auto" };
    expect(resolveSettings({ environment, file: { processes: 4 } }).processes).toBe("auto");
    expect(resolveSettings({ flags: { processes: "64" }, environment }).processes).toBe(64);
    expect(resolveSettings({ file: { processes: 4 } }).processes).toBe(4);
    for (const value of ["0", "65", "1000", "-1", "many"]) {
      expect(readSettings({ flags: { processes: value }, environment: {} })).toEqual({
        ok: false,
        problems: ["--processes must be auto, or a number from 1 to 64."],
      });
    }
  });

  test("one of several processes has its own folder, and a part of the memory for large bodies", () => {
    const environment = { MODEL_GATEWAY_PROCESS: "2/4" };
    const settings = resolveSettings({ environment, file: { large_bodies_mib: 2_048 } });
    expect(settings).toMatchObject({
      process: { number: 2, count: 4 },
      dataDir: resolve("data"),
      nodeDir: resolve("data/processes/2"),
      controlSocketFile: resolve("data/processes/2/control.sock"),
      masterKeyFile: resolve("data/master.key"),
      largeBodiesBytes: 512 * 2 ** 20,
    });
  });

  test("the drain delay is 5 seconds on PostgreSQL and can be set", () => {
    const DATABASE_URL = "postgres://u@h/d";
    expect(resolveSettings({ environment: { DATABASE_URL } }).drainDelayMs).toBe(5_000);
    expect(resolveSettings({ environment: { DATABASE_URL, DRAIN_DELAY: "0" } }).drainDelayMs).toBe(0);
    expect(resolveSettings({ file: { drain_delay: "200ms" } }).drainDelayMs).toBe(200);
    const result = readSettings({ flags: {}, environment: { DRAIN_DELAY: "6m" } });
    expect(result).toEqual({
      ok: false,
      problems: ["DRAIN_DELAY must be a duration like 5s, at most 5m, or 0s."],
    });
  });

  test("flags take precedence over the environment, and the environment over the file", () => {
    const environment = { PORT: "2", HOST: "::1" };
    const file = {
      port: 3,
      host: "0.0.0.0",
      public_url: "https://gw.example",
      allowed_origins: ["https://app.example"],
      allowed_hosts: ["gateway.lan"],
      large_bodies_mib: 200,
    };
    expect(resolveSettings({ file }).allowedOrigins).toEqual(["https://app.example"]);
    expect(resolveSettings({ file }).allowedHosts).toEqual(["gateway.lan"]);
    expect(resolveSettings({ file }).largeBodiesBytes).toBe(200 * 1024 * 1024);
    expect(resolveSettings({ flags: { port: "1" }, environment, file })).toMatchObject({
      port: 1,
      host: "::1",
    });
    expect(resolveSettings({ environment, file })).toMatchObject({
      port: 2,
      publicUrl: "https://gw.example",
    });
    expect(resolveSettings({ file })).toMatchObject({ port: 3, host: "0.0.0.0" });
  });

  test("an empty variable counts as not set", () => {
    expect(resolveSettings({ environment: { PORT: "", DATABASE_URL: "" } }).port).toBe(8787);
  });

  test("a wildcard listen address is shown as an address that can be opened", () => {
    expect(resolveSettings({ flags: { host: "0.0.0.0" } }).publicUrl).toBe("http://127.0.0.1:8787");
    expect(resolveSettings({ flags: { host: "::" } }).publicUrl).toBe("http://[::1]:8787");
  });

  test("all problems are reported at once, with their source and without the values", () => {
    const environment = { HOST: "a b", DATABASE_URL: "mysql://u:hunter2@h/d", PUBLIC_URL: "gw.example" };
    const result = readSettings({ flags: { port: "http" }, environment });
    expect(result.ok).toBe(false);
    const problems = result.ok ? [] : result.problems;
    expect(problems.map((problem) => problem.split(" ")[0])).toEqual([
      "HOST",
      "--port",
      "PUBLIC_URL",
      "DATABASE_URL",
    ]);
    expect(problems.join()).not.toContain("hunter2");
  });

  test("settings are immutable", () => {
    expect(Object.isFrozen(resolveSettings({}))).toBe(true);
  });
});
