/**
 * A separate PostgreSQL server that can be stopped, frozen, copied and promoted. It ends with this process. Tests that
 * only need a database use `postgres.ts`.
 */

import { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { eventually } from "./eventually.ts";
import { findFastFolder } from "./fast-folder.ts";
import { freePort } from "./free-port.ts";
import { findBinaries, installPostgres } from "./postgres.ts";

const READY_WITHIN_MS = 60_000;

/** Settings of postgresql.conf. */
export type PostgresSettings = Readonly<Record<string, string>>;

const BASE_SETTINGS: PostgresSettings = {
  // A killed server loses nothing that the kernel has.
  fsync: "off",
  max_connections: "200",
  listen_addresses: "127.0.0.1",
  shared_buffers: "32MB",
};

const dataFolderIn = (folder: string) => join(folder, "data");

export class PostgresServer {
  readonly folder: string;
  readonly port: number;
  #settings: PostgresSettings;
  #child: Bun.Subprocess | null = null;
  #isFrozen = false;

  private constructor(folder: string, settings: PostgresSettings) {
    this.folder = folder;
    this.port = freePort();
    this.#settings = settings;
  }

  /** A new, empty server that runs. `settings` gets the folder of the server. */
  static async create(settings: (folder: string) => PostgresSettings = () => ({})): Promise<PostgresServer> {
    const folder = createFolder();
    runBinary("initdb", ["--pgdata", dataFolderIn(folder), "--username=postgres", "--auth=trust", ...INITDB]);
    // The port is chosen last: until the server listens, another program may take it.
    const server = new PostgresServer(folder, settings(folder));
    await server.start();
    return server;
  }

  /** A server on a copy of this one. Start it after its folder is prepared. */
  copy(options: readonly string[] = []): PostgresServer {
    const folder = createFolder();
    const source = ["-h", "127.0.0.1", "-p", String(this.port), "-U", "postgres"];
    runBinary("pg_basebackup", [
      ...source,
      "-D",
      dataFolderIn(folder),
      "-X",
      "stream",
      "-c",
      "fast",
      "--no-sync",
      ...options,
    ]);
    return new PostgresServer(folder, {});
  }

  /** From the next start on. */
  configure(settings: PostgresSettings): void {
    this.#settings = { ...this.#settings, ...settings };
  }

  get dataFolder(): string {
    return dataFolderIn(this.folder);
  }

  url(database = "postgres"): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  /** Resolves when it accepts connections. */
  async start(): Promise<void> {
    const settings = { ...BASE_SETTINGS, ...this.#settings, port: String(this.port) };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const log = Bun.file(join(this.folder, "log"));
    this.#child = Bun.spawn(
      [
        ...asOwner("--pdeathsig", "QUIT"),
        binary("postgres"),
        "-D",
        this.dataFolder,
        "-k",
        this.folder,
        ...flags,
      ],
      { cwd: this.folder, stdin: "ignore", stdout: "ignore", stderr: log },
    );
    const child = this.#child;
    await eventually(async () => {
      if (child.exitCode !== null) throw new Error("it ended");
      return this.#responds();
    }, READY_WITHIN_MS).catch(async (cause: unknown) => {
      throw new Error(`PostgreSQL did not start: ${await log.text()}`, { cause });
    });
  }

  /** `immediate`: as after a crash, without a checkpoint. */
  async stop(mode: "fast" | "immediate" = "fast"): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    this.#child = null;
    child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
    await child.exited;
  }

  /** Freezes all of its processes: connections stay open without a response. */
  freeze(): void {
    this.#isFrozen = true;
    this.#signalAll("SIGSTOP");
  }

  thaw(): void {
    this.#isFrozen = false;
    this.#signalAll("SIGCONT");
  }

  /** Promotes a standby, which then accepts writes. */
  async promote(): Promise<void> {
    await this.run("SELECT pg_promote()");
  }

  async run(statement: string, database?: string): Promise<Record<string, unknown>[]> {
    const sql = new SQL({ adapter: "postgres", url: this.url(database), max: 1, connectionTimeout: 5 });
    try {
      return await sql.unsafe(statement);
    } finally {
      await sql.close({ timeout: 0 });
    }
  }

  /** Creates a folder that the server can write to, beside its data. */
  makeFolder(name: string): string {
    const path = join(this.folder, name);
    mkdirSync(path);
    giveToOwner(path);
    return path;
  }

  writeFile(name: string, text: string): void {
    const path = join(this.dataFolder, name);
    writeFileSync(path, text);
    giveToOwner(path);
  }

  async remove(): Promise<void> {
    if (this.#isFrozen) this.thaw();
    await this.stop("immediate");
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #responds(): Promise<boolean> {
    return this.run("SELECT 1").then(
      () => true,
      () => false,
    );
  }

  #signalAll(signal: "SIGSTOP" | "SIGCONT"): void {
    for (const pid of this.#listProcesses()) {
      try {
        process.kill(pid, signal);
      } catch (error) {
        // A connection may have ended since the processes were listed.
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
  }

  #listProcesses(): number[] {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("the server does not run");
    const children = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && readParent(name) === pid)
      .map(Number);
    return [pid, ...children];
  }
}

const INITDB = ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"];

function readParent(pid: string): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    // The process has ended.
    return null;
  }
}

function binary(name: string): string {
  return join(findBinaries() ?? installPostgres(), name);
}

function runBinary(name: string, args: readonly string[]): void {
  const { exitCode, stderr } = Bun.spawnSync([...asOwner(), binary(name), ...args], { cwd: tmpdir() });
  if (exitCode !== 0) throw new Error(`${name}: ${stderr.toString()}`);
}

function createFolder(): string {
  const folder = mkdtempSync(join(findFastFolder(), "gateway-pg-server-"));
  giveToOwner(folder);
  return folder;
}

interface Owner {
  uid: number;
  gid: number;
}

/** PostgreSQL does not run as root. Null: this process is not root. */
function findOwner(): Owner | null {
  if (process.getuid?.() !== 0) return null;
  const id = (flag: string) => Number(Bun.spawnSync(["id", flag, "postgres"]).stdout.toString());
  return { uid: id("-u"), gid: id("-g") };
}

function giveToOwner(path: string): void {
  const owner = findOwner();
  if (owner !== null) chownSync(path, owner.uid, owner.gid);
}

function asOwner(...options: readonly string[]): string[] {
  const owner = findOwner();
  const identity = owner === null ? [] : [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, "--clear-groups"];
  return ["setpriv", ...identity, ...options, "--"];
}
