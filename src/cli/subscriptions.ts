/** `model-gateway plans` and `subscriptions`: lists plans, and grants, lists and cancels subscriptions. */

import { instantText } from "../base/time.ts";
import { cancelGrant, grantPlan } from "../billing/operations/grant.ts";
import { startMs } from "../config/schema/basic-values.ts";
import { usdText } from "../money/nano.ts";
import { RENEWALS } from "../records/plan.ts";
import type { Db } from "../store/engine/db.ts";
import { findUser, listUsers } from "../store/identity/users.ts";
import { listPlans } from "../store/money/plans.ts";
import {
  listAllSubscriptionStatuses,
  listSubscriptionStatuses,
  type PlanWindowStatus,
  type SubscriptionStatus,
} from "../store/money/subscription-status.ts";
import { findSubscription, listSubscriptions } from "../store/money/subscriptions.ts";
import { type CommandDefinition, DATA_OPTION, fail, JSON_OPTION, misuse } from "./command.ts";
import { instantFrom, shortInstant } from "./instants.ts";
import { alignDecimalPoints, formatUsd } from "./money-input.ts";
import { runLogged } from "./operator.ts";
import { printJson, printList } from "./output.ts";
import { requireUser, withInstallation } from "./store-access.ts";
import { count, type Paint, table } from "./terminal.ts";

export const listAllPlans: CommandDefinition = {
  changes: "nothing",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      const plans = await listPlans(db);
      const active = (await listSubscriptions(db)).filter(({ status }) => status === "active");
      const granted = (planId: string) => active.filter((one) => one.planId === planId).length;
      printList(input, {
        json: plans.map(({ id, name, timeZone, windows }) => {
          return { name, time_zone: timeZone, windows, subscriptions: granted(id) };
        }),
        header: ["NAME", "TIME ZONE", "SUBSCRIPTIONS", "WINDOW", "LIMIT", "COUNTED"],
        rows: plans.flatMap(({ id, name, timeZone, windows }) =>
          windows.map(({ per, usd, counted }, i) => [
            ...(i === 0 ? [name, timeZone, String(granted(id))] : ["", "", ""]),
            per,
            `$${usd}`,
            counted,
          ]),
        ),
        empty: "No plans yet. Add them to a configuration file, under plans, and apply it.",
      });
    }),
};

export const listAllSubscriptions: CommandDefinition = {
  changes: "nothing",
  options: {
    user: {
      value: "EMAIL",
      about: "only subscriptions of this user, in the order in which they are charged",
    },
    all: { about: "include cancelled and ended subscriptions" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const email = input.text("user");
      const nowMs = clock.nowMs();
      const options = { past: input.flag("all") };
      const found =
        email === undefined
          ? await listAllSubscriptionStatuses(db, nowMs, options)
          : await listSubscriptionStatuses(db, (await requireUser(db, email)).id, nowMs, options);
      const emails = new Map((await listUsers(db)).map((user) => [user.id, user.email]));
      const listed = found
        .map((one) => ({ one, user: emails.get(one.userId) ?? one.userId }))
        .sort((a, b) => (a.user < b.user ? -1 : a.user > b.user ? 1 : 0));
      const { print, printNote: remark, paint } = input.terminal;
      if (input.flag("json"))
        return printJson(
          input,
          listed.map(({ one, user }) => toJson(one, user)),
        );
      if (listed.length === 0) {
        remark(
          `No subscriptions yet. To grant one: ${input.command("subscriptions grant", "--user", "EMAIL", "--plan", "PLAN")}`,
        );
        return;
      }
      print(listed.map(({ one, user }) => formatSubscription(one, user, paint)).join("\n\n"));
      print(
        paint.dim(
          `\n${count(listed.length, "subscription")}; the lowest priority is charged first. Times are UTC.`,
        ),
      );
    }),
};

export const grantSubscription: CommandDefinition = {
  changes: "money",
  options: {
    user: { value: "EMAIL", about: "the user who gets the plan", required: true },
    plan: { value: "PLAN", about: "the name of a plan", required: true },
    starts: { value: "DATE", about: "2027-01-01 (from the start of that day, UTC) or a time (now)" },
    ends: { value: "DATE", about: "2027-01-31 (until the end of that day, UTC) or a time (never)" },
    renews: { value: "PERIOD", about: "none, month or year: the period of renewal (none)" },
    priority: { value: "NUMBER", about: "0 to 1000; the lowest is charged first (1)" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const startsAtMs = instantFrom(input, "starts", startMs);
      const endsAtMs = instantFrom(input, "ends");
      const renews = RENEWALS.find((one) => one === (input.text("renews") ?? "none"));
      if (renews === undefined)
        misuse("--renews must be none, month or year.", "For example: --renews month");
      const priority = input.text("priority") ?? "1";
      if (!/^\d{1,4}$/.test(priority) || Number(priority) > 1_000)
        misuse("--priority must be a whole number from 0 to 1000.", "For example: --priority 1");
      if (endsAtMs !== null && endsAtMs <= (startsAtMs ?? installation.clock.nowMs()))
        fail(startsAtMs === null ? "--ends is in the past." : "--ends must be after --starts.");
      const user = await requireUser(installation.db, input.require("user"));
      const plan = input.require("plan");
      const grant = { userId: user.id, plan, startsAtMs, endsAtMs, renews, priority: Number(priority) };
      const { subscription } = await runLogged(
        installation,
        (txInstallation) => grantPlan(txInstallation, grant),
        (granted) => ({
          action: "subscription.grant",
          target: `subscription ${plan} of ${user.email}`,
          changes: [
            { field: "starts", from: null, to: instantText(granted.subscription.startsAtMs) },
            { field: "ends", from: null, to: instantText(endsAtMs) },
            { field: "renews", from: null, to: renews },
          ],
        }),
      );
      const nowMs = installation.clock.nowMs();
      const made = (await listSubscriptionStatuses(installation.db, user.id, nowMs, { past: true })).find(
        (one) => one.id === subscription.id,
      );
      if (made === undefined) fail("The subscription was granted, but was cancelled in the meantime.");
      const { print, paint } = input.terminal;
      if (input.flag("json")) return printJson(input, toJson(made, user.email));
      print(`${user.email} has the plan ${paint.bold(plan)} ${termText(made, startsAtMs === null)}.`);
      print(paint.dim(`To cancel it: ${input.command("subscriptions cancel", subscription.id)}`));
    }),
};

export const cancelOneSubscription: CommandDefinition = {
  changes: "money",
  options: {
    "at-end": { about: "cancel at the end of the current term instead of now" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const id = input.require("ID");
      const when = input.flag("at-end") ? "term_end" : "now";
      const title = await subscriptionTitle(installation.db, id);
      const result = await runLogged(
        installation,
        (txInstallation) => cancelGrant(txInstallation, id, when),
        (done) => {
          if (done.kind !== "cancelled" && done.kind !== "ending") return null;
          const to = done.kind === "ending" ? instantText(done.endsAtMs) : "now";
          return {
            action: "subscription.cancel",
            target: title,
            changes: [{ field: "ends", from: null, to }],
          };
        },
      );
      if (result.kind === "unknown")
        fail(
          `Subscription "${id}" does not exist.`,
          `Subscription ids are in: ${input.command("subscriptions list")}`,
        );
      if (result.kind === "open") fail("This subscription has no end.", "Cancel it now, without --at-end.");
      const endsAtMs = result.kind === "ending" ? result.endsAtMs : null;
      if (input.flag("json")) {
        input.terminal.print(JSON.stringify({ id, result: result.kind, ends: instantText(endsAtMs) }));
        return;
      }
      input.terminal.print(
        endsAtMs !== null
          ? `The subscription ends at ${shortInstant(endsAtMs)} UTC and does not renew.`
          : result.kind === "cancelled"
            ? "The subscription is cancelled. Requests in flight are still charged to it."
            : "The subscription was already cancelled.",
      );
    }),
};

/** The target of a subscription in the audit log. */
async function subscriptionTitle(db: Db, id: string): Promise<string> {
  const found = await findSubscription(db, id);
  if (found === null) return `subscription ${id}`;
  const plan = (await listPlans(db)).find((one) => one.id === found.planId);
  const user = await findUser(db, found.userId);
  return `subscription ${plan?.name ?? found.planId} of ${user?.email ?? found.userId}`;
}

function termText({ startsAtMs, endsAtMs, renews }: SubscriptionStatus, isFromNow: boolean): string {
  const from = isFromNow ? "from now on" : `from ${shortInstant(startsAtMs)} UTC`;
  if (endsAtMs === null) return from;
  const again = renews === "none" ? "" : `, renewed every ${renews}`;
  return `${from} until ${shortInstant(endsAtMs)} UTC${again}`;
}

/** One block per subscription: a table with all fields would be wider than a terminal. */
function formatSubscription(one: SubscriptionStatus, user: string, paint: Paint): string {
  const colour = { running: paint.green, upcoming: paint.yellow, ended: paint.dim, cancelled: paint.red };
  const head = `${paint.bold(user)}  ${one.planName}  ${colour[one.state](one.state)} ${untilText(one)}`;
  const id = `${one.id}  priority ${one.priority}`;
  const windows = one.windows.length === 0 ? [] : [windowTable(one.windows, paint)];
  return [head, paint.dim(id), ...windows].join("\n");
}

function untilText({ state, startsAtMs, endsAtMs, renews }: SubscriptionStatus): string {
  if (state === "upcoming") return `from ${shortInstant(startsAtMs)}`;
  if (endsAtMs === null) return "without an end date";
  return `until ${shortInstant(endsAtMs)}${renews === "none" || state !== "running" ? "" : `, renews every ${renews}`}`;
}

function windowTable(windows: readonly PlanWindowStatus[], paint: Paint): string {
  const column = (of: (window: PlanWindowStatus) => bigint) =>
    alignDecimalPoints(windows.map((window) => formatUsd(of(window))));
  const limits = column(({ limitNano }) => limitNano);
  const used = column(({ usedNano }) => usedNano);
  const held = column(({ heldNano }) => heldNano);
  const remaining = column(({ remainingNano }) => remainingNano);
  const rows = windows.map(({ per, endsAtMs }, i) => [
    `  ${per}`,
    ...[limits, used, held, remaining].map((cells) => cells[i] ?? ""),
    shortInstant(endsAtMs),
  ]);
  return table(["  WINDOW", "LIMIT", "USED", "HELD", "LEFT", "RESETS AT"], rows, paint);
}

function toJson(one: SubscriptionStatus, user: string): object {
  return {
    id: one.id,
    user,
    plan: one.planName,
    status: one.state,
    starts: instantText(one.startsAtMs),
    ends: instantText(one.endsAtMs),
    renews: one.renews,
    priority: one.priority,
    windows: one.windows.map((window) => ({
      per: window.per,
      counted: window.counted,
      limit: usdText(window.limitNano),
      used: usdText(window.usedNano),
      held: usdText(window.heldNano),
      remaining: usdText(window.remainingNano),
      resets_at: instantText(window.endsAtMs),
    })),
  };
}
