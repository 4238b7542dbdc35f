/** The services of a local cluster: PostgreSQL, Valkey or Redis, and nginx, from the packages of the system. */

import { chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RedisClient, SQL } from "bun";
import { findRedisServer } from "../test/support/redis.ts";

export interface Service {
  stop(): Promise<void>;
}

export interface AddressedService extends Service {
  readonly url: string;
  readonly process: Bun.Subprocess;
}

const POSTGRES_VERSIONS = "/usr/lib/postgresql";
const READY_WITHIN_MS = 30_000;
const HINT = "Install them, on Debian: apt-get install postgresql redis-server nginx-light";

export async function startPostgres(folder: string): Promise<AddressedService> {
  const binaries = findPostgres();
  mkdirSync(folder, { mode: 0o700 });
  const port = findFreePort();
  const asUser = runAsPostgres(folder);
  const data = join(folder, "data");
  const initialized = Bun.spawnSync(
    [
      ...asUser,
      join(binaries, "initdb"),
      "--pgdata",
      data,
      "--username=postgres",
      "--auth=trust",
      "--no-instructions",
    ],
    { cwd: "/", stdout: "ignore", stderr: "pipe" },
  );
  if (!initialized.success) throw new Error(`initdb failed: ${initialized.stderr.toString()}`);
  const settings = ["-p", String(port), "-h", "127.0.0.1", "-k", folder, "-c", "max_connections=200"];
  const child = Bun.spawn([...asUser, join(binaries, "postgres"), "-D", data, ...settings], {
    cwd: "/",
    stdout: "ignore",
    stderr: "ignore",
  });
  await untilReady("PostgreSQL", async () => {
    const sql = new SQL({
      adapter: "postgres",
      url: `postgres://postgres@127.0.0.1:${port}/postgres`,
      max: 1,
    });
    try {
      await sql.unsafe("CREATE DATABASE gateway");
    } finally {
      await sql.close({ timeout: 0 });
    }
  });
  return {
    url: `postgres://postgres@127.0.0.1:${port}/gateway`,
    process: child,
    async stop() {
      // Fast shutdown: ends open connections.
      child.kill("SIGINT");
      await child.exited;
    },
  };
}

/** It keeps nothing on disk: what nodes divide is written again by the nodes. */
export async function startRedis(folder: string): Promise<AddressedService> {
  const program = findRedisServer();
  if (program === null) throw new Error(`Neither Valkey nor Redis is installed. ${HINT}`);
  mkdirSync(folder);
  const port = findFreePort();
  const settings = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder];
  const child = Bun.spawn([program, ...settings], { stdout: "ignore", stderr: "ignore" });
  const url = `redis://127.0.0.1:${port}`;
  await untilReady("Redis", async () => {
    const client = new RedisClient(url, { autoReconnect: false });
    try {
      await client.connect();
    } finally {
      client.close();
    }
  });
  return {
    url,
    process: child,
    async stop() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

export async function startNginx(folder: string, nodeUrls: readonly string[]): Promise<AddressedService> {
  const program = Bun.which("nginx", { PATH: `${process.env.PATH ?? ""}:/usr/sbin` });
  if (program === null) throw new Error(`nginx is not installed. ${HINT}`);
  mkdirSync(folder);
  const port = findFreePort();
  const file = join(folder, "nginx.conf");
  writeFileSync(file, buildNginxConfig(folder, port, nodeUrls));
  const child = Bun.spawn([program, "-p", folder, "-c", file, "-e", join(folder, "error.log")], {
    stdout: "ignore",
    stderr: "ignore",
  });
  const url = `http://127.0.0.1:${port}`;
  await untilReady("nginx", async () => {
    const response = await fetch(`${url}/readyz`);
    if (!response.ok) throw new Error(`readyz returned ${response.status}`);
  });
  return {
    url,
    process: child,
    async stop() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

/** A connection that is refused goes to another node. A request that a node has received is never sent twice. */
function buildNginxConfig(folder: string, port: number, nodeUrls: readonly string[]): string {
  const servers = nodeUrls
    .map((url) => `    server ${new URL(url).host} max_fails=1 fail_timeout=2s;`)
    .join("\n");
  return `daemon off;
pid ${folder}/nginx.pid;
worker_processes 1;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
  upstream gateway {
${servers}
    keepalive 32;
  }
  server {
    listen 127.0.0.1:${port};
    client_max_body_size 0;
    large_client_header_buffers 8 64k;
    location / {
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Host $host:$server_port;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_connect_timeout 1s;
      proxy_next_upstream error timeout;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 3600s;
    }
  }
}
`;
}

function findPostgres(): string {
  const versions = existsSync(POSTGRES_VERSIONS) ? readdirSync(POSTGRES_VERSIONS) : [];
  const newest = versions
    .filter((version) => existsSync(join(POSTGRES_VERSIONS, version, "bin/initdb")))
    .sort((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined) throw new Error(`PostgreSQL is not installed. ${HINT}`);
  return join(POSTGRES_VERSIONS, newest, "bin");
}

/** PostgreSQL does not run as root. */
function runAsPostgres(folder: string): string[] {
  if (process.getuid?.() !== 0) return [];
  const readId = (option: string) => Number(Bun.spawnSync(["id", option, "postgres"]).stdout.toString());
  const [uid, gid] = [readId("-u"), readId("-g")];
  chownSync(folder, uid, gid);
  return ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--"];
}

function findFreePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

async function untilReady(name: string, check: () => Promise<void>): Promise<void> {
  const deadlineMs = performance.now() + READY_WITHIN_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadlineMs) throw new Error(`${name} did not start: ${String(error)}`);
      await Bun.sleep(100);
    }
  }
}
