/** The coordinator of limits on Redis or Valkey, for concurrency and the limits of a minute: one script. */

import { RedisClient } from "bun";
import {
  type CoordinatorLimits,
  checkDeclaration,
  checkExchange,
} from "../limits/coordinator/coordinator-limits.ts";
import {
  flattenDeclaration,
  flattenExchange,
  parseReply,
  readNotes,
} from "../limits/coordinator/flat-call.ts";
import type {
  ClockBounds,
  DeclareCall,
  DeclareReply,
  ExchangeCall,
  ExchangeReply,
  LimitCoordinator,
  NoteSubscription,
  OpenEpochCall,
  OpenTermCall,
  OpenTermReply,
  RecordKind,
} from "../limits/coordinator/protocol.ts";
import script from "./limit-coordinator.lua" with { type: "text" };

const SCRIPT_SHA = new Bun.CryptoHasher("sha1").update(script).digest("hex");
const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that was lost without a reset never reports it. */
const SILENCE_MS = 2_000;
const RESUBSCRIBE_MS = 1_000;

interface RedisLimitCoordinatorOptions {
  readonly url: string;
  /** Begins all keys and channels, with a hash tag: installations may share a server. */
  readonly prefix: string;
  readonly limits: CoordinatorLimits;
  newId(): string;
  monotonicMs(): number;
}

/** A server process has one run id: after a restart or a failover, another one. */
interface Connection {
  readonly client: RedisClient;
  readonly runId: Promise<string>;
}

export class RedisLimitCoordinator implements LimitCoordinator {
  readonly kind = "redis";
  readonly serves: readonly RecordKind[] = ["rates"];
  readonly #options: RedisLimitCoordinatorOptions;
  /** When each command without a response was sent. */
  readonly #pending = new Set<{ readonly sentMs: number }>();
  #connection: Connection | null = null;
  #isClosed = false;

  constructor(options: RedisLimitCoordinatorOptions) {
    this.#options = options;
  }

  async openTerm({ term, process, folder, bounds }: OpenTermCall): Promise<OpenTermReply> {
    const known = bounds === null ? {} : { epoch: bounds.epoch, ...toBounds(bounds) };
    const reply = await this.#run("open", { term, process, folder, ...known });
    const [nowMs, epoch = "", beat = "", hasUnknownUse] = reply;
    return {
      nowMs: Number(nowMs),
      epoch,
      beat: beat === "" ? null : Number(beat),
      hasUnknownUse: hasUnknownUse === "1",
    };
  }

  async declare(call: DeclareCall): Promise<DeclareReply> {
    checkDeclaration(call, this.#options.limits);
    const { term, seq, last } = call;
    const flat = flattenDeclaration(call);
    const declaration = {
      term,
      seq,
      ...toBounds(call),
      ...flat,
      ...(last === null ? {} : { last: { isSurvivor: last.isSurvivor } }),
    };
    const [status, nowMs, isOpen] = await this.#run("declare", declaration, flat.ids);
    return status === "ok" ? { kind: "ok", nowMs: Number(nowMs), isOpen: isOpen === "1" } : { kind: "gone" };
  }

  async exchange(call: ExchangeCall): Promise<ExchangeReply> {
    checkExchange(call, this.#options.limits);
    const { term, seq } = call;
    const flat = flattenExchange(call);
    const reply = await this.#run("exchange", { term, seq, ...toBounds(call), ...flat }, flat.ids);
    const [status = "", nowMs, isOpen, states = "", results = ""] = reply;
    return parseReply({ status, nowMs: Number(nowMs), isOpen: isOpen === "1", states, results });
  }

  async openEpoch(call: OpenEpochCall): Promise<boolean> {
    const [isOpen] = await this.#run("open_epoch", call);
    return isOpen === "1";
  }

  async endTerm(term: string): Promise<void> {
    await this.#run("end_terms", { term });
  }

  async bury(process: string): Promise<void> {
    await this.#run("end_terms", { process });
  }

  async listProcesses(): Promise<readonly string[]> {
    return [...new Set(await this.#run("list", {}))];
  }

  async sweep(): Promise<void> {
    await this.#run("sweep", {});
  }

  subscribe(
    process: string,
    { onNote, onConnected }: Parameters<LimitCoordinator["subscribe"]>[1],
  ): NoteSubscription {
    const { url, prefix } = this.#options;
    const onPayload = readNotes(onNote);
    return keepSubscription(url, `${prefix}:notes:${process}`, { onPayload, onConnected });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#connection?.client.close();
  }

  async #run(operation: string, call: object, names: readonly string[] = []): Promise<string[]> {
    if (this.#isClosed) throw new Error("The coordinator is closed.");
    const { monotonicMs } = this.#options;
    const [oldest] = this.#pending;
    if (oldest !== undefined && monotonicMs() - oldest.sentMs > SILENCE_MS) this.#dropConnection();
    this.#connection ??= this.#connect();
    const connection = this.#connection;
    const command = { sentMs: monotonicMs() };
    this.#pending.add(command);
    try {
      return await this.#send(connection, operation, JSON.stringify({ ...call, conf: this.#conf() }), names);
    } catch (error) {
      // The next call opens another connection, and reads the run id again.
      const mustReconnect = !connection.client.connected || isFromReplica(error);
      if (mustReconnect && connection === this.#connection) this.#dropConnection();
      throw error;
    } finally {
      this.#pending.delete(command);
    }
  }

  async #send(
    { client, runId }: Connection,
    operation: string,
    call: string,
    names: readonly string[],
  ): Promise<string[]> {
    const { prefix, newId } = this.#options;
    const keys = [`${prefix}:state`, ...names.map((name) => `${prefix}:${name}`)];
    const values = [operation, call, await runId, newId(), `${prefix}:notes:`];
    const rest = [String(keys.length), ...keys, ...values];
    const reply: unknown = await client.send("EVALSHA", [SCRIPT_SHA, ...rest]).catch((error: unknown) => {
      // A server that has restarted does not know the script.
      if (error instanceof Error && error.message.includes("NOSCRIPT"))
        return client.send("EVAL", [script, ...rest]);
      throw error;
    });
    if (!Array.isArray(reply)) throw new Error("Redis returned an unexpected reply.");
    return reply as string[];
  }

  #conf(): object {
    const { termMs, unknownUseMs, endedTermMs, slotWaitMs, recallWaitMs } = this.#options.limits;
    const { waitingMax, usedRecordMs, heldRecordMs } = this.#options.limits;
    const waits = { slotWaitMs, recallWaitMs, waitingMax };
    return { termMs, unknownUseMs, endedTermMs, ...waits, usedRecordMs, heldRecordMs };
  }

  #dropConnection(): void {
    this.#pending.clear();
    const dropped = this.#connection;
    this.#connection = null;
    dropped?.client.close();
  }

  /** Without reconnects of the driver: a connection must not outlive the server whose run id was read. */
  #connect(): Connection {
    const client = new RedisClient(this.#options.url, {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      autoReconnect: false,
    });
    client.onclose = () => {
      if (this.#connection?.client === client) this.#connection = null;
    };
    const runId = client.connect().then(() => readRunId(client));
    // Each call that awaits it reports the failure.
    runId.catch(() => {});
    return { client, runId };
  }
}

/** After a failover the address may lead to the new primary, while this connection stays with the former one. */
function isFromReplica(error: unknown): boolean {
  return error instanceof Error && error.message.includes("READONLY");
}

async function readRunId(client: RedisClient): Promise<string> {
  const info: unknown = await client.send("INFO", ["server"]);
  return /^run_id:(\w+)/m.exec(String(info))?.[1] ?? "";
}

/** Subscribes again when the connection is lost. */
function keepSubscription(
  url: string,
  channel: string,
  { onPayload, onConnected }: { onPayload(payload: string): void; onConnected(): void },
): NoteSubscription {
  let isStopped = false;
  let client: RedisClient | null = null;
  let retry: ReturnType<typeof setTimeout> | null = null;
  const start = () => {
    const opened = new RedisClient(url, { connectionTimeout: CONNECT_TIMEOUT_MS, autoReconnect: false });
    client = opened;
    const again = () => {
      if (isStopped || client !== opened) return;
      client = null;
      opened.close();
      retry = setTimeout(start, RESUBSCRIBE_MS);
    };
    opened.onclose = again;
    opened
      .connect()
      .then(() => opened.subscribe(channel, onPayload))
      .then(onConnected, again);
  };
  start();
  return {
    async stop() {
      isStopped = true;
      if (retry !== null) clearTimeout(retry);
      client?.close();
    },
  };
}

/** Without what is null, which Lua would not take for missing. */
function toBounds({ lo, hi, aheadMs }: ClockBounds): object {
  const ahead = aheadMs === null ? {} : { aheadMs: Math.floor(aheadMs) };
  return { lo: Math.floor(lo), hi: Math.ceil(hi), ...ahead };
}
