/** A real, throw-away Valkey or Redis for tests, which can be frozen, emptied and restarted. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RedisClient } from "bun";
import { eventually } from "./eventually.ts";

export interface TestRedis {
  readonly url: string;
  /** Stops responding, with its connections open. */
  freeze(): void;
  thaw(): void;
  flush(): Promise<void>;
  /** Starts again without its data. */
  restart(): Promise<void>;
  configure(name: string, value: string): Promise<void>;
  countKeys(): Promise<number>;
  stop(): Promise<void>;
}

/** Valkey where it is installed: it is the one that later releases of Debian have. Null if there is neither. */
export function findRedisServer(): string | null {
  return Bun.which("valkey-server") ?? Bun.which("redis-server");
}

export async function startRedis(host = "127.0.0.1"): Promise<TestRedis> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-redis-"));
  const port = findFreePort();
  const url = `redis://${host}:${port}`;
  let child = await spawnRedis(host, port, folder);
  const run = async (command: string, args: string[]) => {
    const client = new RedisClient(url, { autoReconnect: false });
    await client.connect();
    const reply: unknown = await client.send(command, args);
    client.close();
    return reply;
  };
  return {
    url,
    freeze: () => child.kill("SIGSTOP"),
    thaw: () => child.kill("SIGCONT"),
    flush: async () => void (await run("FLUSHALL", [])),
    configure: async (name, value) => void (await run("CONFIG", ["SET", name, value])),
    countKeys: async () => Number(await run("DBSIZE", [])),
    async restart() {
      child.kill("SIGKILL");
      await child.exited;
      child = await spawnRedis(host, port, folder);
    },
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function findFreePort(): number {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  return port;
}

async function spawnRedis(host: string, port: number, folder: string) {
  const address = ["--port", String(port), "--bind", host, "--protected-mode", "no"];
  const settings = [...address, "--save", "", "--appendonly", "no"];
  const child = Bun.spawn([findRedisServer() ?? "redis-server", ...settings, "--dir", folder], {
    stdout: "ignore",
    stderr: "ignore",
  });
  await eventually(async () => {
    const client = new RedisClient(`redis://${host}:${port}`, { autoReconnect: false });
    const isReady = await client
      .connect()
      .then(() => true)
      .catch(() => false);
    client.close();
    return isReady;
  });
  return child;
}
