import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { readSettings, type SettingSources } from "./environment.ts";

function settingsOf(sources: Partial<SettingSources>) {
  const result = readSettings({ flags: {}, environment: {}, ...sources });
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result.settings;
}

describe("settings", () => {
  test("nothing said: loopback, 8787, ./data and SQLite in it", () => {
    expect(settingsOf({})).toEqual({
      host: "127.0.0.1",
      port: 8787,
      publicUrl: "http://127.0.0.1:8787",
      allowedOrigins: [],
      allowedHosts: [],
      largeBodiesBytes: null,
      dataDir: resolve("data"),
      databaseUrl: `sqlite:${resolve("data/gateway.db")}`,
      masterKeyFile: resolve("data/master.key"),
      adminTokenFile: resolve("data/admin-token"),
      controlSocketFile: resolve("data/control.sock"),
      durability: "process",
    });
  });

  test("how much a booking survives is one of two words", () => {
    expect(settingsOf({ environment: { DURABILITY: "disk" } }).durability).toBe("disk");
    const result = readSettings({ flags: {}, environment: { DURABILITY: "tape" } });
    expect(result).toEqual({ ok: false, problems: ["DURABILITY must be process or disk."] });
  });

  test("a flag beats the environment, the environment beats the file", () => {
    const environment = { PORT: "2", HOST: "::1" };
    const file = {
      port: 3,
      host: "0.0.0.0",
      public_url: "https://gw.example",
      allowed_origins: ["https://app.example"],
      allowed_hosts: ["gateway.lan"],
      large_bodies_mib: 200,
    };
    expect(settingsOf({ file }).allowedOrigins).toEqual(["https://app.example"]);
    expect(settingsOf({ file }).allowedHosts).toEqual(["gateway.lan"]);
    expect(settingsOf({ file }).largeBodiesBytes).toBe(200 * 1024 * 1024);
    expect(settingsOf({ flags: { port: "1" }, environment, file })).toMatchObject({ port: 1, host: "::1" });
    expect(settingsOf({ environment, file })).toMatchObject({ port: 2, publicUrl: "https://gw.example" });
    expect(settingsOf({ file })).toMatchObject({ port: 3, host: "0.0.0.0" });
  });

  test("an empty variable counts as not set", () => {
    expect(settingsOf({ environment: { PORT: "", DATABASE_URL: "" } }).port).toBe(8787);
  });

  test("an address that listens everywhere is shown as one that can be opened", () => {
    expect(settingsOf({ flags: { host: "0.0.0.0" } }).publicUrl).toBe("http://127.0.0.1:8787");
    expect(settingsOf({ flags: { host: "::" } }).publicUrl).toBe("http://[::1]:8787");
  });

  test("everything wrong is said at once, with where it came from and without the value", () => {
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

  test("settings cannot be changed afterwards", () => {
    expect(Object.isFrozen(settingsOf({}))).toBe(true);
  });
});
