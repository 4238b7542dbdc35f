/**
 * Checks this process every few seconds and raises alerts for the operator, each one once until it is over. Open
 * alerts are stored in the database, so a restart raises none twice. Requests bear no cost: the checks read existing
 * counters.
 */

import type { HttpClient } from "../net/http-client/client.ts";
import type { Dialer } from "../net/http-client/dial.ts";
import type { Clock, NewId } from "../net/wire/clock.ts";
import type { BillingFaults } from "../observe/billing-faults.ts";
import type { Log } from "../observe/log.ts";
import type { Traffic } from "../observe/traffic.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { PolicyGroup } from "../policy/snapshot.ts";
import type { Pool } from "../pool/pool.ts";
import type { AccountReport } from "../pool/report.ts";
import { type AlertsRecord, DEFAULT_ALERTS } from "../records.ts";
import type { Keyring } from "../secrets/keyring.ts";
import {
  type AlertEvent,
  type AlertRecord,
  closeAlert,
  listOpenAlerts,
  type NewDelivery,
  openAlert,
  removeAlerts,
} from "../store/alerts/alerts.ts";
import type { Db } from "../store/engine/db.ts";
import { type RepeatedOverruns, readRepeatedOverruns } from "../store/money/overruns.ts";
import { readAlertSettings } from "../store/settings/alert-settings.ts";
import { type AlertCondition, type AlertView, conditionsIn, isOver } from "./conditions.ts";
import { type FoldedSpending, readFolded, type SpentToday, spentToday } from "./daily-spending.ts";
import { buildAlertBody, deliverDue, type Origin, send, testBody } from "./delivery.ts";
import { openHistory } from "./history.ts";
import type { WebhookResponse } from "./post.ts";

export interface AlertLimits {
  lookMs: number;
  deliveryTimeoutMs: number;
  retriesMs: readonly number[];
  keptMs: number;
  /** How long an alert stays open after the latest billing fault. */
  billingFaultMs: number;
}

export interface AlertOptions {
  db: Db;
  clock: Clock;
  log: Log;
  keyring: Keyring;
  newId: NewId;
  policy: Pick<LivePolicy, "snapshot">;
  pool: Pick<Pool, "report">;
  traffic: Traffic;
  dialer: Dialer;
  http: HttpClient;
  /** Known once the server listens. */
  origin(): Origin;
  billingFaults: Pick<BillingFaults, "list">;
  limits: AlertLimits;
}

export interface Alerts {
  /** Checks now, for example after a change of settings. Waits for a running check and then starts another. */
  look(): Promise<void>;
  /** Sends a test to a webhook, which may have just been saved; null if no webhook has this name. */
  test(webhook: string): Promise<WebhookResponse | null>;
  /** Null until first read. */
  spentToday(): SpentToday | null;
  /** No check starts after this call; resolves when none is running. */
  stop(): Promise<void>;
}

/** The longest span that any rule looks back. */
const HISTORY_MS = 3_900_000;
const REMOVE_EVERY_MS = 3_600_000;
const READ_FOLDED_EVERY_MS = 10_000;
/**
 * Maximum number of users reported at once. More than a few indicate wrong prices or windows, not a problem with the
 * users.
 */
const OVERRUN_USERS_MAX = 20;

export function startAlerts(options: AlertOptions): Alerts {
  const { db, clock, log, keyring, newId, policy, pool, limits } = options;
  const startedAtMs = clock.nowMs();
  const history = openHistory(options.traffic, HISTORY_MS, startedAtMs);
  const emptySince = new Map<string, number>();
  let open: AlertRecord[] | null = null;
  let settings: AlertsRecord = DEFAULT_ALERTS;
  let settingsSnapshot: unknown = null;
  let folded: FoldedSpending | null = null;
  let overruns: readonly RepeatedOverruns[] | null = null;
  let foldedReadAtMs = Number.NEGATIVE_INFINITY;
  let removedAtMs = Number.NEGATIVE_INFINITY;
  let running: Promise<void> = Promise.resolve();
  let queued: Promise<void> | null = null;
  let delivering: Promise<void> | null = null;
  /** Deliveries may have become due since the current round began. */
  let hasMore = false;
  let isStopped = false;

  const sender = { ...options, timeoutMs: limits.deliveryTimeoutMs };

  async function checkOnce(): Promise<void> {
    const nowMs = clock.nowMs();
    await readSettings();
    history.take(nowMs);
    if (nowMs - foldedReadAtMs >= READ_FOLDED_EVERY_MS) {
      folded = await readFolded(db, nowMs);
      overruns = await readOverruns(nowMs);
      foldedReadAtMs = nowMs;
    }
    const { node } = options.origin();
    open ??= await listOpenAlerts(db, node);
    const view = buildView(nowMs);
    const found = conditionsIn(view, settings);
    const isOpen = (condition: AlertCondition) =>
      open?.some(({ rule, subject }) => rule === condition.rule && subject === condition.subject);
    for (const condition of found.filter((one) => !isOpen(one))) await begin(condition, nowMs);
    const isStill = ({ rule, subject }: AlertRecord) =>
      found.some((one) => one.rule === rule && one.subject === subject);
    for (const alert of open.filter((one) => !isStill(one) && isOver(one, view, settings)))
      await end(alert, nowMs);
    if (nowMs - removedAtMs >= REMOVE_EVERY_MS) {
      removedAtMs = nowMs;
      await removeAlerts(db, nowMs - limits.keptMs);
    }
  }

  async function readOverruns(nowMs: number): Promise<readonly RepeatedOverruns[] | null> {
    const { enabled, count, overMs } = settings.overruns;
    if (!enabled) return null;
    return readRepeatedOverruns(db, {
      sinceMs: nowMs - overMs,
      leastCount: count,
      limit: OVERRUN_USERS_MAX,
    });
  }

  /**
   * Every change of settings increases the policy revision, so a new snapshot means that settings must be read
   * again.
   */
  async function readSettings(): Promise<void> {
    const snapshot = policy.snapshot();
    if (snapshot === settingsSnapshot) return;
    settings = await readAlertSettings(db);
    settingsSnapshot = snapshot;
  }

  function buildView(nowMs: number): AlertView {
    const snapshot = policy.snapshot();
    const groups = [...snapshot.groups.values()];
    for (const id of emptySince.keys()) if (!snapshot.groups.has(id)) emptySince.delete(id);
    const reports = new Map([...snapshot.accounts.values()].map((one) => [one.id, pool.report(one)]));
    for (const group of groups) trackEmptyPool(group, reports, nowMs);
    const before = history.at(nowMs - settings.errorRate.overMs);
    const latest = history.latest();
    return {
      nowMs,
      startedAtMs,
      accounts: [...reports].map(([id, report]) => {
        return { id, name: snapshot.accounts.get(id)?.name ?? id, report };
      }),
      groups: groups.map(({ id, name, accounts }) => {
        const emptySinceMs = emptySince.get(id) ?? null;
        return { id, name, accountIds: accounts.map((account) => account.id), emptySinceMs };
      }),
      recent: { requests: latest.requests - before.requests, errors: latest.errors - before.errors },
      spent: folded === null ? null : spentToday(folded, history),
      billingFaults: options.billingFaults
        .list()
        .filter(({ latestAtMs }) => latestAtMs !== null && nowMs - latestAtMs < limits.billingFaultMs),
      billingFaultMs: limits.billingFaultMs,
      overruns,
    };
  }

  function trackEmptyPool(
    { id, accounts }: PolicyGroup,
    reports: ReadonlyMap<string, AccountReport>,
    nowMs: number,
  ): void {
    const isEmpty =
      accounts.length > 0 && accounts.every((account) => reports.get(account.id)?.condition !== "well");
    if (!isEmpty) emptySince.delete(id);
    else if (!emptySince.has(id)) emptySince.set(id, nowMs);
  }

  async function begin(
    { rule, subject, seenBy, message, details }: AlertCondition,
    nowMs: number,
  ): Promise<void> {
    const node = seenBy === "all" ? "" : options.origin().node;
    const id = newId("alert");
    const alert = { id, rule, subject, node, message, details, startedAtMs: nowMs, endedAtMs: null };
    if (await openAlert(db, alert, buildDeliveries("firing", alert, nowMs))) {
      log.warn("alert", { rule, subject });
      open?.push(alert);
      // Another node has opened and delivers it. This node still tracks when it is over.
    } else open = await listOpenAlerts(db, options.origin().node);
  }

  async function end(alert: AlertRecord, nowMs: number): Promise<void> {
    const ended = { ...alert, endedAtMs: nowMs };
    const isFirst = await closeAlert(db, alert.id, nowMs, buildDeliveries("resolved", ended, nowMs));
    if (isFirst) log.info("alert_over", { rule: alert.rule, subject: alert.subject });
    open = (open ?? []).filter(({ id }) => id !== alert.id);
  }

  function buildDeliveries(event: AlertEvent, alert: AlertRecord, nowMs: number): NewDelivery[] {
    const body = buildAlertBody(event, alert, options.origin(), nowMs);
    return settings.webhooks
      .filter(({ enabled }) => enabled)
      .map(({ name }) => ({ id: newId("dlv"), event, webhook: name, body }));
  }

  /** Runs concurrently with the checks, so that a slow webhook does not delay them. */
  function deliver(): void {
    if (delivering !== null) {
      hasMore = true;
      return;
    }
    hasMore = false;
    delivering = deliverDue({ ...sender, webhooks: settings.webhooks, retriesMs: limits.retriesMs })
      .catch(logFailure)
      .finally(() => {
        delivering = null;
        if (hasMore && !isStopped) deliver();
      });
  }

  function logFailure(error: unknown): void {
    log.warn("alerts_failed", { reason: error instanceof Error ? error.message : "unknown" });
  }

  function look(): Promise<void> {
    queued ??= running.then(() => {
      queued = null;
      if (isStopped) return;
      running = checkOnce().then(deliver, logFailure);
      return running;
    });
    return queued;
  }

  const timer = setInterval(() => void look(), limits.lookMs);
  timer.unref();
  return {
    look,
    async test(name) {
      const { webhooks } = await readAlertSettings(db);
      const webhook = webhooks.find((one) => one.name === name);
      if (webhook === undefined) return null;
      const body = testBody(options.origin(), clock.nowMs());
      return send({ ...sender, keyring }, webhook, newId("dlv"), body);
    },
    spentToday: () => (folded === null ? null : spentToday(folded, history)),
    async stop() {
      isStopped = true;
      clearInterval(timer);
      await queued;
      await running;
      await delivering;
    },
  };
}
