/**
 * Reads the state that the alert rules evaluate: the health of the accounts, the traffic of this process, and the
 * spending and overruns in the database.
 */

import type { Clock } from "../base/clock.ts";
import type { BillingFaults } from "../observe/billing-faults.ts";
import type { LoopWatch } from "../observe/loop-watch.ts";
import type { Traffic } from "../observe/traffic.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { PolicyGroup } from "../policy/snapshot.ts";
import type { AccountReport } from "../pool/health-report.ts";
import type { Pool } from "../pool/pool.ts";
import type { AlertsRecord } from "../records/settings.ts";
import type { Db } from "../store/engine/db.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { type DirectoryLoss, findDirectoryLosses } from "../store/identity/directory-losses.ts";
import { type RepeatedOverruns, readRepeatedOverruns } from "../store/money/overruns.ts";
import { hasLostCoordinator, listNodes, type NodeRecord } from "../store/nodes/nodes.ts";
import type { AlertLimits, AlertView, StoreSignals } from "./alert-view.ts";
import { computeSpentToday, type FoldedSpending, readFolded, type SpentToday } from "./daily-spending.ts";
import { type History, openHistory } from "./traffic-history.ts";

export interface AlertViewOptions {
  db: Db;
  policy: Pick<LivePolicy, "snapshot">;
  pool: Pick<Pool, "report">;
  traffic: Traffic;
  billingFaults: Pick<BillingFaults, "list">;
  loop: Pick<LoopWatch, "countRepeated">;
  limits: Pick<AlertLimits, "billingFaultMs" | "nodeSilentMs" | "failoverMs" | "directoryLoss">;
  clock: Pick<Clock, "nowMs">;
  store: Pick<StoreSignals, "replacedAtMs">;
  startedAtMs: number;
}

interface DatabaseState {
  readonly readAtMs: number;
  readonly spending: FoldedSpending;
  /** Null if the rule is disabled. */
  readonly overruns: readonly RepeatedOverruns[] | null;
  readonly nodes: readonly NodeRecord[];
  readonly uncoordinatedNodeIds: ReadonlySet<string>;
  readonly directoryLosses: readonly DirectoryLoss[];
}

/** The longest span that any rule looks back. */
const HISTORY_MS = 3_900_000;
const DATABASE_READ_INTERVAL_MS = 10_000;
/** Users reported at once. More indicate wrong prices or windows, not a problem with the users. */
const OVERRUN_USERS_MAX = 20;

export class AlertViewReader {
  readonly #options: AlertViewOptions;
  readonly #history: History;
  /** By group id: since when none of its accounts is available. */
  readonly #emptySinceMs = new Map<string, number>();
  /** Null until first read. */
  #database: DatabaseState | null = null;

  constructor(options: AlertViewOptions) {
    this.#options = options;
    this.#history = openHistory(options.traffic, HISTORY_MS, options.startedAtMs);
  }

  async read(rules: AlertsRecord, nowMs: number): Promise<AlertView> {
    this.#history.addSample(nowMs);
    if (this.#database === null || nowMs - this.#database.readAtMs >= DATABASE_READ_INTERVAL_MS) {
      const lostBefore = listUncoordinated(this.#database?.nodes ?? []);
      const nodes = await this.#readNodes();
      this.#database = {
        readAtMs: nowMs,
        spending: await readFolded(this.#options.db, nowMs),
        overruns: await this.#readOverruns(rules, nowMs),
        nodes,
        uncoordinatedNodeIds: listUncoordinated(nodes).intersection(lostBefore),
        directoryLosses: await findDirectoryLosses(
          this.#options.db,
          nowMs,
          this.#options.limits.directoryLoss,
        ),
      };
    }
    return this.#buildView(nowMs);
  }

  /** Null until first read. */
  spentToday(): SpentToday | null {
    return this.#database === null ? null : computeSpentToday(this.#database.spending, this.#history);
  }

  async #readOverruns({ overruns }: AlertsRecord, nowMs: number): Promise<DatabaseState["overruns"]> {
    if (!overruns.enabled) return null;
    return readRepeatedOverruns(this.#options.db, {
      sinceMs: nowMs - overruns.overMs,
      leastCount: overruns.count,
      limit: OVERRUN_USERS_MAX,
    });
  }

  async #readNodes(): Promise<readonly NodeRecord[]> {
    const { db, clock } = this.#options;
    return isSharedServer(db) ? listNodes(db, clock) : [];
  }

  #buildView(nowMs: number): AlertView {
    const { policy, pool, billingFaults, limits, store, startedAtMs } = this.#options;
    const { accounts, groups } = policy.snapshot();
    const reports = new Map([...accounts.values()].map((account) => [account.id, pool.report(account)]));
    this.#trackEmptyPools(groups, reports, nowMs);
    const latest = this.#history.latest();
    return {
      nowMs,
      startedAtMs,
      accounts: [...reports].map(([id, report]) => ({ id, name: accounts.get(id)?.name ?? id, report })),
      groups: [...groups.values()].map((group) => ({
        id: group.id,
        name: group.name,
        accountIds: group.accounts.map((account) => account.id),
        emptySinceMs: this.#emptySinceMs.get(group.id) ?? null,
      })),
      countTraffic: (spanMs) => {
        const before = this.#history.sampleAt(nowMs - spanMs);
        return {
          requests: latest.requests - before.requests,
          errors: latest.errors - before.errors,
          fallbacks: latest.fallbacks - before.fallbacks,
        };
      },
      spent: this.spentToday(),
      billingFaults: billingFaults
        .list()
        .filter(({ latestAtMs }) => latestAtMs !== null && nowMs - latestAtMs < limits.billingFaultMs),
      overruns: this.#database?.overruns ?? null,
      slowTurns: this.#options.loop.countRepeated(),
      nodes: this.#database?.nodes ?? null,
      uncoordinatedNodeIds: this.#database?.uncoordinatedNodeIds ?? new Set(),
      directoryLosses: this.#database?.directoryLosses ?? null,
      storeReplacedAtMs: store.replacedAtMs(),
      billingFaultMs: limits.billingFaultMs,
      nodeSilentMs: limits.nodeSilentMs,
      failoverMs: limits.failoverMs,
    };
  }

  #trackEmptyPools(
    groups: ReadonlyMap<string, PolicyGroup>,
    reports: ReadonlyMap<string, AccountReport>,
    nowMs: number,
  ): void {
    for (const id of this.#emptySinceMs.keys()) if (!groups.has(id)) this.#emptySinceMs.delete(id);
    for (const { id, accounts } of groups.values()) {
      const isEmpty =
        accounts.length > 0 && accounts.every((account) => reports.get(account.id)?.condition !== "well");
      if (!isEmpty) this.#emptySinceMs.delete(id);
      else if (!this.#emptySinceMs.has(id)) this.#emptySinceMs.set(id, nowMs);
    }
  }
}

function listUncoordinated(nodes: readonly NodeRecord[]): Set<string> {
  return new Set(nodes.filter(hasLostCoordinator).map(({ id }) => id));
}
