/** A real, temporary MariaDB for tests, as the database of another gateway. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";

const READY_WITHIN_MS = 60_000;

export interface MariaDb {
  readonly url: string;
  stop(): Promise<void>;
}

export function findMariaDb(): string | null {
  return Bun.which("mariadbd", { PATH: `${process.env.PATH}:/usr/sbin` });
}

export async function startMariaDb(): Promise<MariaDb> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-mariadb-"));
  const user = Bun.spawnSync(["id", "-un"]).stdout.toString().trim();
  const common = ["--no-defaults", `--datadir=${folder}`, `--user=${user}`];
  const install = ["mariadb-install-db", ...common, "--auth-root-authentication-method=normal"];
  const installed = Bun.spawnSync(install, { stdout: "ignore", stderr: "pipe" });
  if (!installed.success) throw new Error(installed.stderr.toString());
  const port = freePort();
  const network = ["--bind-address=127.0.0.1", `--port=${port}`, `--socket=${join(folder, "socket")}`];
  const child = Bun.spawn([findMariaDb() ?? "mariadbd", ...common, ...network], {
    stdout: "ignore",
    stderr: "ignore",
  });
  const buildUrl = (database: string) => `mysql://root@127.0.0.1:${port}/${database}`;
  await eventually(() => runOnce(buildUrl("mysql"), "CREATE DATABASE source"), READY_WITHIN_MS);
  return {
    url: buildUrl("source"),
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns false while the server does not listen. */
async function runOnce(url: string, statement: string): Promise<boolean> {
  const client = new SQL(url, { max: 1 });
  try {
    await client.unsafe(statement);
    return true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}
