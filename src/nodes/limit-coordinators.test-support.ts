/** The coordinators of limits under test, with a clock that the test sets, and a node that speaks the protocol. */

import { RedisClient } from "bun";
import { eventually } from "../../test/support/eventually.ts";
import { createMigrated } from "../../test/support/postgres.ts";
import { startRedis, type TestRedis } from "../../test/support/redis.ts";
import { nodeLimits } from "../config/limits/node-limits.ts";
import { MemoryLimitCoordinator } from "../limits/coordinator/memory-limit-coordinator.test-support.ts";
import type {
  AskResult,
  ClockBounds,
  ExchangeCall,
  ExchangeReply,
  LimitCoordinator,
  LimitNote,
  MeterAsk,
  MeterHolding,
  MeterNo,
  MeterReport,
  MeterState,
  NoteSubscription,
  OpeningBounds,
  RecordRef,
} from "../limits/coordinator/protocol.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { text } from "../store/engine/row.ts";
import { PostgresLimitCoordinator } from "./postgres-limit-coordinator.ts";
import { RedisLimitCoordinator } from "./redis-limit-coordinator.ts";

const limits = nodeLimits.limitCoordinator;

export interface CoordinatorUnderTest {
  readonly coordinator: LimitCoordinator;
  /** Sets the coordinator's time. Real time passes on servers meanwhile: calls have exact bounds. */
  setTime(nowMs: number): Promise<void>;
  readEpoch(): Promise<string>;
  /** Deletes what a crash deletes. */
  lose(): Promise<void>;
  /** Deletes everything. */
  clear(): Promise<void>;
  stop(): Promise<void>;
}

export async function openMemory(): Promise<CoordinatorUnderTest> {
  let serverMs = Date.now();
  let epoch = "";
  const coordinator = new MemoryLimitCoordinator({
    serverMs: () => serverMs,
    newId: () => {
      epoch = crypto.randomUUID();
      return epoch;
    },
    limits,
  });
  return {
    coordinator,
    setTime: async (nowMs) => {
      serverMs = nowMs;
    },
    readEpoch: async () => epoch,
    lose: async () => coordinator.loseState(),
    clear: async () => coordinator.loseState(),
    stop: async () => {},
  };
}

const VOLATILE_TABLES = "limit_epoch, limit_term, limit_subject";

/** `url` is the address of `db`. */
export function openCoordinatorOn(db: Db, url: string): CoordinatorUnderTest {
  return {
    coordinator: new PostgresLimitCoordinator({ db, listenUrl: url, serves: ["rates", "window"], limits }),
    setTime: async (nowMs) =>
      void (await db.sql`
        UPDATE limit_epoch SET offset_ms = ${nowMs} - CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)`),
    readEpoch: async () => {
      const [row] = await db.sql`SELECT epoch FROM limit_epoch`;
      return row === undefined ? "" : text(row, "epoch");
    },
    lose: () => db.sql.script(`TRUNCATE ${VOLATILE_TABLES}`),
    clear: () => db.sql.script(`TRUNCATE ${VOLATILE_TABLES}, limit_window, limit_window_bucket`),
    stop: () => db.close(),
  };
}

export async function openOnPostgres(): Promise<CoordinatorUnderTest> {
  const { url, stop } = await createMigrated();
  const under = openCoordinatorOn(await openDb(url), url);
  return {
    ...under,
    stop: async () => {
      await under.stop();
      await stop();
    },
  };
}

/** Sets the time of a coordinator on Redis: its first key has the offset to the clock of the server. */
const SET_TIME = `
local raw = redis.call('GET', KEYS[1])
if not raw then return 0 end
local state = cmsgpack.unpack(raw)
local clock = redis.call('TIME')
state.offset = ARGV[1] - (clock[1] * 1000 + math.floor(clock[2] / 1000))
redis.call('SET', KEYS[1], cmsgpack.pack(state))
return 1`;

const READ_EPOCH = "return cmsgpack.unpack(redis.call('GET', KEYS[1])).epoch";

export const REDIS_PREFIX = "test:{limits}";

type RedisUnderTest = CoordinatorUnderTest & Pick<TestRedis, "url" | "restart" | "freeze" | "thaw">;

export async function openOnRedis(): Promise<RedisUnderTest> {
  const redis = await startRedis();
  const client = new RedisClient(redis.url);
  const coordinator = new RedisLimitCoordinator({
    url: redis.url,
    prefix: REDIS_PREFIX,
    limits,
    newId: () => crypto.randomUUID(),
    monotonicMs: () => performance.now(),
  });
  return {
    coordinator,
    url: redis.url,
    restart: () => redis.restart(),
    freeze: () => redis.freeze(),
    thaw: () => redis.thaw(),
    setTime: async (nowMs) =>
      void (await client.send("EVAL", [SET_TIME, "1", `${REDIS_PREFIX}:state`, String(nowMs)])),
    readEpoch: async () => String(await client.send("EVAL", [READ_EPOCH, "1", `${REDIS_PREFIX}:state`])),
    lose: () => redis.flush(),
    clear: () => redis.flush(),
    stop: async () => {
      await coordinator.close();
      client.close();
      await redis.stop();
    },
  };
}

export const COORDINATORS: Readonly<Record<string, () => Promise<CoordinatorUnderTest>>> = {
  memory: openMemory,
  postgres: openOnPostgres,
  redis: openOnRedis,
};

/** Several nodes on one coordinator, at a time that the test sets. */
export class ProtocolCluster {
  readonly under: CoordinatorUnderTest;
  readonly subscriptions: NoteSubscription[] = [];
  /** In the past: a server whose clock is behind takes stored rows for later ones. */
  nowMs = 1_692_000_000_000;

  constructor(under: CoordinatorUnderTest) {
    this.under = under;
  }

  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    await this.under.setTime(this.nowMs);
  }

  async stop(): Promise<void> {
    for (const subscription of this.subscriptions) await subscription.stop();
  }

  /** Opens a term and declares nothing. */
  async start(process: string, { registered = [process], folder = process } = {}): Promise<ProtocolNode> {
    const node = new ProtocolNode(this, process, folder);
    await node.open();
    await node.declare([], { registered });
    return node;
  }

  async startAll(...processes: string[]): Promise<ProtocolNode[]> {
    const nodes: ProtocolNode[] = [];
    for (const process of processes)
      nodes.push(await this.start(process, { registered: processes.slice(0, nodes.length + 1) }));
    return nodes;
  }
}

type Sent = Partial<Pick<ExchangeCall, "items" | "asks">>;

export class ProtocolNode {
  readonly process: string;
  readonly folder: string;
  readonly notes: LimitNote[] = [];
  readonly #cluster: ProtocolCluster;
  #opened = 0;
  #last: ExchangeCall | null = null;
  term = "";
  epoch = "";
  seq = 0;

  constructor(cluster: ProtocolCluster, process: string, folder: string) {
    this.#cluster = cluster;
    this.process = process;
    this.folder = folder;
  }

  get #coordinator(): LimitCoordinator {
    return this.#cluster.under.coordinator;
  }

  /** Of the coordinator's time, exactly: time that has passed on the server since it was set does not count. */
  get bounds(): ClockBounds {
    return { lo: this.#cluster.nowMs, hi: this.#cluster.nowMs, aheadMs: 0 };
  }

  async open(): Promise<void> {
    this.#opened += 1;
    this.term = `${this.process}-${this.#opened}`;
    this.seq = 0;
    const { term, process, folder } = this;
    const bounds = await this.readOpeningBounds();
    const { epoch } = await this.#coordinator.openTerm({ term, process, folder, bounds });
    this.epoch = epoch;
  }

  /** Begins an epoch if the state was lost. */
  async readOpeningBounds(): Promise<OpeningBounds> {
    const { under, nowMs } = this.#cluster;
    await this.#coordinator.exchange({ term: "", seq: 1, ...this.bounds, records: [], items: [], asks: [] });
    await under.setTime(nowMs);
    return { ...this.bounds, epoch: await under.readEpoch() };
  }

  async declare(
    holdings: readonly (MeterHolding & { of: RecordRef })[],
    {
      registered = [this.process],
      replaces = null as string | null,
      isSurvivor = false,
      hasUnknownUse = false,
    } = {},
  ) {
    this.seq += 1;
    const records = [...new Set(holdings.map(({ of }) => of))];
    const reply = await this.#coordinator.declare({
      term: this.term,
      seq: this.seq,
      ...this.bounds,
      records,
      holdings: holdings.map(({ of, ...holding }) => ({ ...holding, record: records.indexOf(of) })),
      last: { replaces, isSurvivor },
    });
    const isOpen = await this.#coordinator.openEpoch({ process: this.process, registered, hasUnknownUse });
    return { ...reply, isOpen };
  }

  async exchange(
    records: readonly RecordRef[],
    { items = [], asks = [] }: Sent = {},
  ): Promise<ExchangeReply> {
    this.seq += 1;
    this.#last = { term: this.term, seq: this.seq, ...this.bounds, records, items, asks };
    return this.#coordinator.exchange(this.#last);
  }

  /** The last call once more, as after a lost reply. */
  async repeat(): Promise<ExchangeReply> {
    if (this.#last === null) throw new Error("nothing was sent");
    return this.#coordinator.exchange({ ...this.#last, ...this.bounds });
  }

  async ok(records: readonly RecordRef[], sent: Sent = {}) {
    const reply = await this.exchange(records, sent);
    if (reply.kind !== "ok") throw new Error(`the reply is ${reply.kind}`);
    return reply;
  }

  /** One ask, about one meter of one record. */
  async ask(record: RecordRef, meter: MeterNo, want: Want = {}): Promise<AskResult> {
    const { results } = await this.ok([record], { asks: [wish(meter, want)] });
    return results[0] ?? { kind: "repeated" };
  }

  async report(record: RecordRef, meter: MeterNo, report: Partial<MeterReport>): Promise<MeterState> {
    const items = [{ record: 0, meter, used: 0, refunds: [], returned: 0, confirms: 0, ...report }];
    const { states } = await this.ok([record], { items });
    return findMeter(states[0]?.meters, meter);
  }

  async read(record: RecordRef, meter: MeterNo): Promise<MeterState> {
    const { states } = await this.ok([record]);
    return findMeter(states[0]?.meters, meter);
  }

  /** Resolves when notes can be received. */
  async listen(): Promise<void> {
    let isConnected = false;
    const subscription = this.#coordinator.subscribe(this.process, {
      onNote: (note) => this.notes.push(note),
      onConnected: () => {
        isConnected = true;
      },
    });
    this.#cluster.subscriptions.push(subscription);
    await eventually(() => isConnected);
  }

  /** Waits for the next note. */
  async nextNote(): Promise<LimitNote> {
    return eventually(() => this.notes.shift());
  }
}

export interface Want {
  amount?: number;
  least?: number;
  need?: number;
  most?: number;
  key?: string;
  mode?: MeterAsk["mode"];
  record?: number;
}

export function wish(
  meter: MeterNo,
  { amount = 1, least = amount, need = amount, most = need, key = "k", mode = "wait", record = 0 }: Want = {},
): MeterAsk {
  return { mode, key, wants: [{ record, meter, least, need, most }] };
}

function findMeter(meters: readonly MeterState[] | undefined, meter: MeterNo): MeterState {
  const found = meters?.[meter];
  if (found === undefined) throw new Error("the reply has no state of the record");
  return found;
}

export function rates(
  id: string,
  values: Partial<Record<"slots" | "requests" | "tokens", number>>,
): RecordRef {
  const { slots = null, requests = null, tokens = null } = values;
  return { scope: "key", id, perMs: null, revision: 1, limits: [slots, requests, tokens] };
}

export function buildWindow(
  id: string,
  values: Partial<Record<"requests" | "tokens" | "nano" | "perMs", number>>,
): RecordRef {
  const { requests = null, tokens = null, nano = null, perMs = 5 * 3_600_000 } = values;
  return { scope: "key", id, perMs, revision: 1, limits: [requests, tokens, nano] };
}
