/**
 * Plans and subscriptions. A subscription is identified by its user, plan and start. An entry without a start
 * matches the oldest subscription that no other entry names, so that the file can be applied again.
 */

import { instantText } from "../../base/time.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { computeCurrentEnd, computeSubscriptionState } from "../../money/subscription.ts";
import {
  PLAN_PERIODS,
  type PlanRecord,
  type PlanWindow,
  type SubscriptionRecord,
} from "../../records/plan.ts";
import { deletePlan, putPlan } from "../../store/money/plans.ts";
import { cancelSubscription, putSubscription } from "../../store/money/subscriptions.ts";
import type { FilePlan, FileSubscription, GatewayFile } from "../schema/schema.ts";
import { type FormattedFields, recordChanges } from "../state/difference.ts";
import { buildStep, type ConfigState, type PlanStep, requireId, type Secrets } from "../state/step.ts";

interface GrantSteps {
  plans: PlanStep[];
  subscriptions: PlanStep[];
  /** For pruning, in an order that respects references. */
  removals: PlanStep[];
}

/** `users` maps the lower-case e-mail addresses of all users, after the file is applied, to their ids. */
export function planGrants(
  state: ConfigState,
  file: GatewayFile,
  users: ReadonlyMap<string, string>,
  secrets: Secrets,
): GrantSteps {
  const plans = file.plans.map((wanted) => planPlan(state, wanted, secrets));
  const planIds = new Map(state.plans.map(({ name, id }) => [name, id]));
  const timeZones = new Map(state.plans.map(({ name, timeZone }) => [name, timeZone]));
  for (const { record } of plans) {
    planIds.set(record.name, record.id);
    timeZones.set(record.name, record.timeZone);
  }

  const keptIds = new Set<string>();
  const active = Map.groupBy(
    state.subscriptions.filter(({ status }) => status === "active"),
    ({ userId }) => userId,
  );
  const subscriptions = file.users.flatMap(({ email, subscriptions: wanted = [] }) => {
    const userId = requireId(users, email);
    const matches = matchSubscriptions(active.get(userId) ?? [], wanted, planIds);
    for (const { id } of matches.values()) keptIds.add(id);
    return wanted.flatMap((entry) => {
      const planId = requireId(planIds, entry.plan);
      const timeZone = requireId(timeZones, entry.plan);
      return planSubscription(matches.get(entry), entry, { userId, planId, timeZone, email }, secrets) ?? [];
    });
  });
  return {
    plans: plans.flatMap(({ step }) => step ?? []),
    subscriptions,
    removals: removals(state, file, keptIds, secrets),
  };
}

function planPlan(state: ConfigState, wanted: FilePlan, { clock, newId }: Secrets) {
  const present = state.plans.find(({ name }) => name === wanted.name);
  const record: PlanRecord = {
    id: present?.id ?? newId("plan"),
    name: wanted.name,
    timeZone: wanted.time_zone,
    windows: sortWindows(wanted.windows).map(({ per, usd, counted }) => {
      return { per, usd: usdText(parseUsd(usd)), counted };
    }),
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const fields = recordChanges(present, record, formatPlan);
  return { record, step: buildStep(`plan ${record.name}`, !present, fields, (tx) => putPlan(tx, record)) };
}

function matchSubscriptions(
  active: readonly SubscriptionRecord[],
  wanted: readonly FileSubscription[],
  planIds: ReadonlyMap<string, string>,
): Map<FileSubscription, SubscriptionRecord> {
  const unmatched = new Set(active);
  const found = new Map<FileSubscription, SubscriptionRecord>();
  const exactFirst = wanted.toSorted(
    (a, b) => Number(a.starts === undefined) - Number(b.starts === undefined),
  );
  for (const entry of exactFirst) {
    const planId = planIds.get(entry.plan);
    const present = [...unmatched].find(
      (one) => one.planId === planId && (entry.starts === undefined || entry.starts === one.startsAtMs),
    );
    if (present === undefined) continue;
    found.set(entry, present);
    unmatched.delete(present);
  }
  return found;
}

function planSubscription(
  present: SubscriptionRecord | undefined,
  wanted: FileSubscription,
  { userId, planId, timeZone, email }: { userId: string; planId: string; timeZone: string; email: string },
  { clock, newId }: Secrets,
): PlanStep | null {
  const record: SubscriptionRecord = {
    id: present?.id ?? newId("sub"),
    userId,
    planId,
    startsAtMs: wanted.starts ?? present?.startsAtMs ?? clock.nowMs(),
    endsAtMs: wanted.ends ?? null,
    renews: wanted.renews,
    priority: wanted.priority,
    status: "active",
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  // A subscription that ends before it starts grants nothing.
  const isOver = record.endsAtMs !== null && record.endsAtMs <= record.startsAtMs;
  if (present === undefined && isOver && record.renews === "none") return null;
  const describe = (one: SubscriptionRecord) => formatSubscription(one, timeZone, clock.nowMs());
  const fields = recordChanges(present, record, describe);
  const title = subscriptionTitle(wanted.plan, email);
  return buildStep(title, !present, fields, (tx) => putSubscription(tx, record));
}

function removals(
  state: ConfigState,
  file: GatewayFile,
  keptIds: ReadonlySet<string>,
  { clock }: Secrets,
): PlanStep[] {
  const remove = (what: string, write: PlanStep["write"]): PlanStep => ({
    kind: "remove",
    what,
    fields: [],
    write,
  });
  const nowMs = clock.nowMs();
  const emails = new Map(state.users.map(({ id, email }) => [id, email]));
  const plans = new Map(state.plans.map(({ id, name }) => [id, name]));
  const named = new Set(file.plans.map(({ name }) => name));
  // A plan that was granted before, or that has redeem codes, is referenced by the ledger.
  const granted = new Set(state.subscriptions.map(({ planId }) => planId)).union(state.plansOfCodes);
  return [
    ...state.subscriptions
      .filter((one) => isRunningOrUpcoming(one, nowMs) && !keptIds.has(one.id))
      .map(({ id, planId, userId }) => {
        const title = subscriptionTitle(plans.get(planId) ?? planId, emails.get(userId) ?? userId);
        return remove(title, (tx) => cancelSubscription(tx, id));
      }),
    ...state.plans
      .filter(({ id, name }) => !named.has(name) && !granted.has(id))
      .map(({ id, name }) => remove(`plan ${name}`, (tx) => deletePlan(tx, id))),
  ];
}

/** Running and upcoming subscriptions in file shape, by user id. */
export function subscriptionsToFile(state: ConfigState, nowMs: number): ReadonlyMap<string, object[]> {
  const plans = new Map(state.plans.map(({ id, name }) => [id, name]));
  const written = new Map<string, object[]>();
  for (const one of state.subscriptions) {
    if (!isRunningOrUpcoming(one, nowMs)) continue;
    const { planId, startsAtMs, endsAtMs, renews, priority } = one;
    const entries = written.get(one.userId) ?? [];
    entries.push({
      plan: plans.get(planId) ?? planId,
      starts: instantText(startsAtMs),
      ...(endsAtMs === null ? {} : { ends: instantText(endsAtMs) }),
      renews,
      priority,
    });
    written.set(one.userId, entries);
  }
  return written;
}

function isRunningOrUpcoming(one: SubscriptionRecord, nowMs: number): boolean {
  return ["running", "upcoming"].includes(computeSubscriptionState(one, nowMs));
}

export function planToFile({ name, timeZone, windows }: PlanRecord) {
  return {
    name,
    time_zone: timeZone,
    windows: windows.map(({ per, usd, counted }) => ({ per, usd, counted })),
  };
}

/** Lists each window as a separate field, so that a difference names the window that changed. */
function formatPlan({ timeZone, windows }: PlanRecord): FormattedFields {
  const describe = windows.map(({ per, usd, counted }) => [`windows.${per}`, `${usd} USD, ${counted}`]);
  return { time_zone: timeZone, ...Object.fromEntries(describe) };
}

function formatSubscription(
  subscription: SubscriptionRecord,
  timeZone: string,
  nowMs: number,
): FormattedFields {
  const { startsAtMs, renews, priority } = subscription;
  return {
    starts: instantText(startsAtMs),
    ends: formatEnd(subscription, computeCurrentEnd(subscription, timeZone, nowMs)),
    renews,
    priority: String(priority),
  };
}

/**
 * Shows the computed end of a renewing subscription, which no record contains: an operator who removes the
 * renewal must see which end it removes.
 */
function formatEnd({ endsAtMs }: SubscriptionRecord, presentEndMs: number | null): string | null {
  const first = instantText(endsAtMs);
  if (presentEndMs === endsAtMs) return first;
  return `${instantText(presentEndMs)} (renews${first === null ? "" : ` since ${first}`})`;
}

function subscriptionTitle(plan: string, email: string): string {
  return `subscription ${plan} of ${email}`;
}

function sortWindows(windows: readonly PlanWindow[]): PlanWindow[] {
  return windows.toSorted((a, b) => PLAN_PERIODS.indexOf(a.per) - PLAN_PERIODS.indexOf(b.per));
}
