/** A real PgBouncer for tests: in transaction mode, with the settings of Debian's package, in front of one PostgreSQL. */

import { chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";

const READY_WITHIN_MS = 10_000;
/** Fewer than the connections of one node, so that transactions must share them. */
const POOL_SIZE = 8;

export interface PgBouncer {
  /** The same database through the pooler. */
  readonly url: string;
  /** Ends it at once, with all connections, and starts it again after `pauseMs`. */
  restart(pauseMs: number): Promise<void>;
  stop(): Promise<void>;
}

/** `postgresUrl` is the address of a database that trusts its clients. */
export async function startPgBouncer(postgresUrl: string): Promise<PgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-pgbouncer-"));
  const server = new URL(postgresUrl);
  const url = new URL(postgresUrl);
  url.port = String(freePort());
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(
    file,
    `[databases]
* = host=${server.hostname} port=${server.port} user=${server.username}
[pgbouncer]
listen_addr = ${url.hostname}
listen_port = ${url.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${POOL_SIZE}
max_client_conn = 200
`,
  );
  const identity = useUnprivileged(folder, file);
  const start = async () => {
    const child = Bun.spawn([...identity, "pgbouncer", "-q", file], { stdout: "ignore", stderr: "ignore" });
    await eventually(() => {
      if (child.exitCode !== null) throw new Error("PgBouncer did not start");
      return responds(url.href);
    }, READY_WITHIN_MS);
    return child;
  };
  let child = await start();
  const end = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  return {
    url: url.href,
    async restart(pauseMs) {
      await end();
      await Bun.sleep(pauseMs);
      child = await start();
    },
    async stop() {
      await end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function responds(url: string): Promise<boolean> {
  const sql = new SQL({ adapter: "postgres", url, max: 1, prepare: false, connectionTimeout: 2 });
  try {
    await sql.unsafe("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await sql.close({ timeout: 0 });
  }
}

/** PgBouncer does not run as root. */
function useUnprivileged(...paths: string[]): string[] {
  const end = ["setpriv", "--pdeathsig", "KILL"];
  if (process.getuid?.() !== 0) return [...end, "--"];
  const id = (flag: string) => Number(Bun.spawnSync(["id", flag, "postgres"]).stdout.toString());
  const [uid, gid] = [id("-u"), id("-g")];
  for (const path of paths) chownSync(path, uid, gid);
  return [...end, `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--"];
}
