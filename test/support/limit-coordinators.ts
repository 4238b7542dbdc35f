/** The two servers from which nodes borrow limits, with the faults that a test causes. */

import { PostgresServer } from "./postgres-server.ts";
import { startRedis } from "./redis.ts";

export interface FaultyCoordinator {
  readonly kind: "postgres" | "redis";
  readonly databaseUrl: string;
  readonly env: Readonly<Record<string, string>>;
  /** Whether nodes can start while the coordinator does not respond. */
  readonly isDatabase: boolean;
  /** Stops responding, with its connections open. */
  freeze(): void;
  thaw(): void;
  /** Deletes what the nodes share. */
  empty(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

async function startDatabase(): Promise<{ server: PostgresServer; url: string }> {
  const server = await PostgresServer.create();
  await server.run("CREATE DATABASE gateway");
  return { server, url: server.url("gateway") };
}

export async function startPostgresCoordinator(): Promise<FaultyCoordinator> {
  const { server, url } = await startDatabase();
  return {
    kind: "postgres",
    databaseUrl: url,
    env: {},
    isDatabase: true,
    freeze: () => server.freeze(),
    thaw: () => server.thaw(),
    empty: async () => void (await server.run("TRUNCATE limit_epoch, limit_term, limit_subject", "gateway")),
    async restart() {
      // As after a crash, which also empties a table without a write-ahead log.
      await server.stop("immediate");
      await server.start();
    },
    stop: () => server.remove(),
  };
}

export async function startRedisCoordinator(): Promise<FaultyCoordinator> {
  const { server, url } = await startDatabase();
  const redis = await startRedis();
  return {
    kind: "redis",
    databaseUrl: url,
    env: { REDIS_URL: redis.url },
    isDatabase: false,
    freeze: redis.freeze,
    thaw: redis.thaw,
    empty: () => redis.flush(),
    restart: () => redis.restart(),
    async stop() {
      await redis.stop();
      await server.remove();
    },
  };
}
