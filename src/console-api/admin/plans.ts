/** Routes for plans and subscriptions. */

import { z } from "zod";
import { cancelGrant, grantPlan } from "../../billing/operations/grant.ts";
import { planToFile } from "../../config/plan/plan-grants.ts";
import { ApiError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import { COUNTED, PLAN_PERIODS, type PlanRecord, RENEWALS } from "../../records/plan.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findUser, findUserByEmail } from "../../store/identity/users.ts";
import { listPlans } from "../../store/money/plans.ts";
import { countActive, listSubscriptionPage } from "../../store/money/subscription-list.ts";
import { readSubscriptionStatuses, type SubscriptionStatus } from "../../store/money/subscription-status.ts";
import { findSubscription } from "../../store/money/subscriptions.ts";
import { listGroups } from "../../store/policy/groups.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { changePolicy } from "../changes/change.ts";
import type { StoreContext } from "../context.ts";
import { emailField, instantField } from "../forms/fields.ts";
import { fieldError } from "../http/field-error.ts";
import { orderKeyField, readOrderKey } from "../http/idempotency-key.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forAdmins, forAuditors } from "../http/route.ts";

/** In the shape of gateway.yaml. The schema of the file validates the values. */
const planForm = z.strictObject({
  name: z.string(),
  time_zone: z.string(),
  windows: z.array(
    z.strictObject({ per: z.enum(PLAN_PERIODS), usd: z.string(), counted: z.enum(COUNTED).optional() }),
  ),
});

const planResponse = z.object({
  ...planForm.shape,
  /** Granted and not cancelled. */
  subscriptions: z.number(),
  /** Names of the groups that name the plan as a payer. */
  groups: z.array(z.string()),
  created_at: z.number(),
});

const subscriptionResponse = z.object({
  id: z.string(),
  user_id: z.string(),
  email: z.string(),
  plan: z.string(),
  standing: z.enum(["running", "upcoming", "ended", "cancelled"]),
  starts_at: z.number(),
  ends_at: z.number().nullable(),
  renews: z.enum(RENEWALS),
  priority: z.number(),
  windows: z.array(
    z.object({
      per: z.enum(PLAN_PERIODS),
      limit: z.string(),
      used: z.string(),
      held: z.string(),
      remaining: z.string(),
      resets_at: z.number(),
    }),
  ),
});

const byName = { params: z.strictObject({ name: z.string() }) };

export const adminPlanRoutes = {
  "admin.plans.list": forAuditors({
    method: "GET",
    path: "/api/admin/plans",
    summary: "List plans, with their number of subscribers",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(planResponse),
    async run({ installation: { db } }, { query }) {
      const { page, next } = namedPage(await listPlans(db), ({ name }) => name, query);
      return { data: await planObjects(db, page), next };
    },
  }),

  "admin.plans.save": forAdmins({
    ...byName,
    method: "PUT",
    path: "/api/admin/plans/:name",
    summary: "Create a plan, or replace its configuration. Usage in the current windows is kept.",
    body: planForm,
    response: planResponse,
    async run(context, input) {
      const { name } = input.params;
      if (input.body.name !== name)
        throw fieldError(
          "name",
          "invalid_value",
          "the name of a plan cannot be changed. Create another plan.",
        );
      await changePolicy(context, input, { plans: [input.body] });
      return planObject(context.installation.db, name);
    },
  }),

  "admin.plans.delete": forAdmins({
    ...byName,
    method: "DELETE",
    path: "/api/admin/plans/:name",
    summary: "Delete a plan that was never granted",
    response: z.object({ name: z.string() }),
    async run(context, input) {
      const { name } = input.params;
      await planObject(context.installation.db, name);
      await changePolicy(context, input, {}, { plans: [name] });
      return { name };
    },
  }),

  "admin.subscriptions.list": forAuditors({
    method: "GET",
    path: "/api/admin/subscriptions",
    summary: "List subscriptions, newest first, with their remaining quota",
    query: z.strictObject({
      ...pageQuery,
      ...searchQuery,
      plan: z.string().optional(),
      user: z.string().max(100).optional(),
    }),
    response: buildPage(subscriptionResponse),
    async run({ installation: { db, clock } }, { query: { after, limit, search, plan, user } }) {
      const cursor = readCursor(after, z.tuple([z.number(), z.string()]));
      const planId = plan === undefined ? undefined : await findPlanId(db, plan);
      const { found, next } = await listSubscriptionPage(
        db,
        { ...(planId && { planId }), ...(user && { userId: user }), ...(search && { search }) },
        { after: cursor === null ? null : { createdAtMs: cursor[0], id: cursor[1] }, limit },
      );
      const ids = found.map(({ id }) => id);
      const statuses = await readSubscriptionStatuses(db, ids, clock.nowMs());
      const byId = new Map(statuses.map((status) => [status.id, status]));
      return {
        data: found.flatMap(({ id, email }) => {
          const status = byId.get(id);
          return status === undefined ? [] : subscriptionObject(status, email);
        }),
        next: next === null ? null : cursorText([next.createdAtMs, next.id]),
      };
    },
  }),

  "admin.subscriptions.grant": forAdmins({
    method: "POST",
    path: "/api/admin/subscriptions",
    summary: "Grant a plan to a user",
    body: z.strictObject({
      email: emailField,
      plan: z.string(),
      /** Null: now. */
      starts_at: instantField.nullable().default(null),
      /** Null: no end or, if it renews, one period after the start. */
      ends_at: instantField.nullable().default(null),
      renews: z.enum(RENEWALS).default("none"),
      /** The subscription with the lowest value pays first. */
      priority: z.int().min(0).max(1_000).default(1),
      idempotency_key: orderKeyField,
    }),
    takesIdempotencyKey: true,
    response: subscriptionResponse,
    async run(context, input) {
      const { installation, gateway } = context;
      const { email, plan, starts_at, ends_at, renews, priority, idempotency_key } = input.body;
      const nowMs = installation.clock.nowMs();
      if (ends_at !== null && ends_at <= (starts_at ?? nowMs))
        throw fieldError("ends_at", "invalid_value", "must be after the start.");
      const created = await transaction(installation.db, async (tx) => {
        const user = await findUserByEmail(tx, email);
        if (user === null) throw fieldError("email", "not_found", `the user ${email} does not exist.`);
        const grant = {
          userId: user.id,
          plan,
          startsAtMs: starts_at,
          endsAtMs: ends_at,
          renews,
          priority,
          ...readOrderKey(input.headers, idempotency_key),
        };
        const { subscription, repeated } = await grantPlan({ ...installation, db: tx }, grant);
        const granted = { id: subscription.id, email: user.email };
        if (repeated) return granted;
        const changes = [
          { field: "starts", from: null, to: new Date(subscription.startsAtMs).toISOString() },
          { field: "ends", from: null, to: ends_at === null ? null : new Date(ends_at).toISOString() },
          { field: "renews", from: null, to: renews },
        ];
        const target = `subscription ${plan} of ${user.email}`;
        await recordChange(tx, input, { atMs: nowMs, action: "subscription.grant", target, changes });
        return granted;
      });
      await gateway.policy.refresh();
      return requireSubscription(context, created.id, created.email);
    },
  }),

  "admin.subscriptions.cancel": forAdmins({
    method: "POST",
    path: "/api/admin/subscriptions/:id/cancel",
    summary: "Cancel a subscription, now or at the end of its term",
    params: z.strictObject({ id: z.string().max(100) }),
    body: z.strictObject({ when: z.enum(["now", "term_end"]).default("now") }),
    response: subscriptionResponse,
    async run(context, input) {
      const { installation, gateway } = context;
      const { id } = input.params;
      const { when } = input.body;
      const email = await transaction(installation.db, async (tx) => {
        const record = await findSubscription(tx, id);
        if (record === null) throw subscriptionNotFound();
        const user = await findUser(tx, record.userId);
        const cancelled = await cancelGrant({ ...installation, db: tx }, id, when);
        if (cancelled.kind === "open") {
          throw fieldError("when", "conflict", "this subscription has no end. Cancel it now.");
        }
        if (cancelled.kind === "cancelled_before")
          throw new ApiError("conflict", "This subscription was already cancelled.");
        const plan = (await listPlans(tx)).find((one) => one.id === record.planId)?.name ?? record.planId;
        const to = cancelled.kind === "ending" ? new Date(cancelled.endsAtMs).toISOString() : "now";
        const address = user?.email ?? record.userId;
        await recordChange(tx, input, {
          atMs: installation.clock.nowMs(),
          action: "subscription.cancel",
          target: `subscription ${plan} of ${address}`,
          changes: [{ field: "ends", from: null, to }],
        });
        return address;
      });
      await gateway.policy.refresh();
      return requireSubscription(context, id, email);
    },
  }),
};

async function planObjects(db: Db, plans: readonly PlanRecord[]): Promise<z.input<typeof planResponse>[]> {
  const active = await countActive(db);
  const groups = await listGroups(db);
  return plans.map((plan) => ({
    ...planToFile(plan),
    subscriptions: active.get(plan.id) ?? 0,
    groups: groups.filter(({ billing }) => billing.plans?.includes(plan.name)).map(({ name }) => name),
    created_at: plan.createdAtMs,
  }));
}

async function planObject(db: Db, name: string): Promise<z.input<typeof planResponse>> {
  const plan = (await listPlans(db)).find((one) => one.name === name);
  const [object] = plan === undefined ? [] : await planObjects(db, [plan]);
  if (object === undefined)
    throw new ApiError("not_found", "This plan does not exist. GET /api/admin/plans lists the plans.");
  return object;
}

async function findPlanId(db: Db, name: string): Promise<string> {
  const plan = (await listPlans(db)).find((one) => one.name === name);
  if (plan === undefined) throw fieldError("plan", "not_found", "this plan does not exist.");
  return plan.id;
}

function subscriptionNotFound(): ApiError {
  return new ApiError(
    "not_found",
    "This subscription does not exist. GET /api/admin/subscriptions lists the subscriptions.",
  );
}

async function requireSubscription({ installation }: StoreContext, id: string, email: string) {
  const [status] = await readSubscriptionStatuses(installation.db, [id], installation.clock.nowMs());
  if (status === undefined) throw subscriptionNotFound();
  return subscriptionObject(status, email);
}

function subscriptionObject(one: SubscriptionStatus, email: string): z.input<typeof subscriptionResponse> {
  return {
    id: one.id,
    user_id: one.userId,
    email,
    plan: one.planName,
    standing: one.state,
    starts_at: one.startsAtMs,
    ends_at: one.endsAtMs,
    renews: one.renews,
    priority: one.priority,
    windows: one.windows.map((window) => ({
      per: window.per,
      limit: usdText(window.limitNano),
      used: usdText(window.usedNano),
      held: usdText(window.heldNano),
      remaining: usdText(window.remainingNano),
      resets_at: window.endsAtMs,
    })),
  };
}
