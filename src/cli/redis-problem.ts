/** Checks a Redis server that several nodes use, for `doctor`. */

import { RedisClient } from "bun";

const CONNECT_TIMEOUT_MS = 2_000;

/** What an operator has to change about the server; null if nothing, or if the server does not report it. */
export async function findRedisProblem(url: string): Promise<{ message: string; todo: string } | null> {
  const client = new RedisClient(url, { connectionTimeout: CONNECT_TIMEOUT_MS, autoReconnect: false });
  try {
    await client.connect();
    const policy = await readSetting(client, "maxmemory-policy");
    const memory = await readSetting(client, "maxmemory");
    if (policy === null || policy === "noeviction" || memory === "0") return null;
    return {
      message: `has maxmemory-policy ${policy}, so it may delete what nodes share`,
      todo: "Set maxmemory-policy noeviction.",
    };
  } finally {
    client.close();
  }
}

/** Null if the server forbids the command, as hosted ones do. */
async function readSetting(client: RedisClient, name: string): Promise<string | null> {
  const reply: unknown = await client.send("CONFIG", ["GET", name]).catch(() => null);
  if (Array.isArray(reply)) return typeof reply[1] === "string" ? reply[1] : null;
  if (typeof reply !== "object" || reply === null) return null;
  const value: unknown = Reflect.get(reply, name);
  return typeof value === "string" ? value : null;
}
