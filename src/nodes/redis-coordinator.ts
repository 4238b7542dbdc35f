/** The coordinator on Redis or Valkey: one hash, replaced by a script that compares its token. */

import { RedisClient } from "bun";
import type { Coordinator, CoordinatorDocument } from "../limits/sharing/coordinator.ts";

/** A key of another type counts as missing. */
const READ = `
local time = redis.call('TIME')
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return { time[1], time[2] } end
local found = redis.call('HMGET', KEYS[1], 'token', 'document')
return { time[1], time[2], found[1], found[2] }`;

const REPLACE = `
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local token = redis.call('HGET', KEYS[1], 'token')
if (token or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[2], 'document', ARGV[3])
return 1`;

const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that was lost without a reset never reports it. */
const SILENCE_MS = 2_000;

export interface RedisCoordinatorOptions {
  readonly url: string;
  /** Installations may share a server. */
  readonly key: string;
  newToken(): string;
  monotonicMs(): number;
}

export class RedisCoordinator implements Coordinator {
  readonly kind = "redis";
  readonly #options: RedisCoordinatorOptions;
  /** When each command without a response was sent. */
  readonly #pending = new Set<{ readonly sentMs: number }>();
  /** When the client was created. */
  #createdMs = 0;
  #client: RedisClient;

  constructor(options: RedisCoordinatorOptions) {
    this.#options = options;
    this.#client = this.#connect();
  }

  async read(): Promise<CoordinatorDocument> {
    const reply = await this.#run(READ, []);
    if (!Array.isArray(reply)) throw new Error("Redis returned an unexpected answer.");
    const [seconds, micros, token, document] = reply as (string | null)[];
    return {
      text: document ?? null,
      token: token ?? "",
      nowMs: Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000),
    };
  }

  async replace({ token }: CoordinatorDocument, text: string): Promise<boolean> {
    return Number(await this.#run(REPLACE, [token, this.#options.newToken(), text])) === 1;
  }

  async close(): Promise<void> {
    this.#client.close();
  }

  /** Scripts are sent as text: a server that has restarted does not know them. */
  async #run(script: string, values: readonly string[]): Promise<unknown> {
    const { key, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    const [oldest] = this.#pending;
    if (oldest !== undefined && nowMs - oldest.sentMs > SILENCE_MS) this.#replaceConnection();
    const command = { sentMs: nowMs };
    this.#pending.add(command);
    const client = this.#client;
    try {
      return await client.send("EVAL", [script, "1", key, ...values]);
    } catch (error) {
      // A client that could not connect in time never tries again.
      const isUsable = client.connected || client !== this.#client;
      if (!isUsable && monotonicMs() - this.#createdMs > CONNECT_TIMEOUT_MS) this.#replaceConnection();
      throw error;
    } finally {
      this.#pending.delete(command);
    }
  }

  #replaceConnection(): void {
    this.#pending.clear();
    this.#client.close();
    this.#client = this.#connect();
  }

  #connect(): RedisClient {
    this.#createdMs = this.#options.monotonicMs();
    const client = new RedisClient(this.#options.url, {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      autoReconnect: true,
      // A command waits for the connection that is being opened. The caller's deadline ends the wait.
      enableOfflineQueue: true,
    });
    return client;
  }
}

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
