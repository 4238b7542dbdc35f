/** Routes that list the models that keys of a user can call, and explain why a key cannot call one. */

import { z } from "zod";
import { paramError } from "../../errors.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import { CHARGES } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { findUser } from "../../store/identity/users.ts";
import { countKeysByGroup, listNewestKeys } from "../../store/policy/key-list.ts";
import { ownerQuery, ownKey, resolveOwner } from "../auth/owner.ts";
import type { PolicyContext } from "../context.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forUsers } from "../http/route.ts";
import { offeredModelObject, offeredModelResponse } from "../keys/groups.ts";
import { filterUsableGroups } from "../keys/usable-groups.ts";
import { explainKey, whyResponse } from "./access-explainer/explain-access.ts";
import { availabilityResponse, computeAvailability } from "./availability.ts";

const callableModelResponse = z.object({
  ...offeredModelResponse.shape,
  /** The same model may be available in several groups, at different prices. */
  group: z.string(),
  charge: z.enum(CHARGES),
  now: availabilityResponse,
  /** Keys that can call it: their number, and the newest of them. If there are none, a new key of the group could. */
  keys: z.object({ count: z.number(), some: z.array(z.object({ id: z.string(), name: z.string() })) }),
});

const KEYS_LISTED_MAX = 5;
const modelCursor = z.tuple([z.string(), z.string()]);

export const modelRoutes = {
  "models.list": forUsers({
    method: "GET",
    path: "/api/models",
    summary: "List the models that your keys can call, by group, with prices and availability",
    query: z.strictObject({
      ...pageQuery,
      ...searchQuery,
      ...ownerQuery,
      /** Only models that this key can call. */
      key: z.string().optional(),
    }),
    response: buildPage(callableModelResponse),
    async run(context, { actor, query }) {
      const { db, clock } = context.installation;
      const nowMs = clock.nowMs();
      const userId = resolveOwner(actor, query.user);
      const counts = await countKeysByGroup(db, userId, nowMs);
      const groups = await listVisibleGroups(context, userId, counts);
      const keyFilter = query.key === undefined ? null : await ownKey(db, actor, query.key);
      const cursor = readCursor(query.after, modelCursor);
      const searchText = query.search?.toLowerCase() ?? "";
      const offers = groups
        .filter(({ id }) => keyFilter === null || keyFilter.groupId === id)
        .flatMap((group) => [...group.models.values()].map((model) => ({ group, model })))
        .filter(({ model }) => model.id.toLowerCase().includes(searchText))
        .sort((a, b) => compareModels([a.model.id, a.group.name], [b.model.id, b.group.name]))
        .filter(({ group, model }) => cursor === null || compareModels(cursor, [model.id, group.name]) < 0);
      const page = offers.slice(0, query.limit);
      const last = page.at(-1);
      const { pool } = context.gateway.dispatcher;
      const newestByGroup = new Map<string, Awaited<ReturnType<typeof listNewestKeys>>>();
      for (const { id: groupId } of new Set(page.map(({ group }) => group)))
        newestByGroup.set(
          groupId,
          await listNewestKeys(db, { userId, groupId, nowMs, limit: KEYS_LISTED_MAX }),
        );
      return {
        data: page.map(({ group, model }) => ({
          ...offeredModelObject(model),
          group: group.name,
          charge: group.billing.charge,
          now: computeAvailability(pool, [...new Set([...model.routes.values()].flat())], nowMs),
          keys: { count: counts.get(group.id) ?? 0, some: newestByGroup.get(group.id) ?? [] },
        })),
        next:
          offers.length > page.length && last !== undefined
            ? cursorText([last.model.id, last.group.name])
            : null,
      };
    },
  }),

  "models.why": forUsers({
    method: "GET",
    path: "/api/models/why",
    summary: "Explain step by step why a key can or cannot call a model",
    query: z.strictObject({
      /** A key id. */
      key: z.string(),
      model: z.string().trim().min(1).max(256),
      interface: z.enum(INTERFACES),
    }),
    response: whyResponse,
    async run(context, { actor, query }) {
      const key = await ownKey(context.installation.db, actor, query.key);
      return explainKey(context, actor, { key, model: query.model, interface: query.interface });
    },
  }),
};

/** Groups in which the user has keys stay visible, even if the user may not create more keys in them. */
async function listVisibleGroups(
  { installation, gateway }: PolicyContext,
  userId: string,
  counts: ReadonlyMap<string, number>,
) {
  const user = await findUser(installation.db, userId);
  if (user === null) throw paramError("user", "not_found", "This user does not exist.");
  const snapshot = gateway.policy.snapshot();
  const groups = new Set<PolicyGroup>(filterUsableGroups(snapshot, user));
  for (const groupId of counts.keys()) {
    const group = snapshot.groups.get(groupId);
    if (group !== undefined) groups.add(group);
  }
  return [...groups];
}

function compareModels(a: readonly [string, string], b: readonly [string, string]): number {
  const [first, second] = a[0] === b[0] ? [a[1], b[1]] : [a[0], b[0]];
  return first === second ? 0 : first < second ? -1 : 1;
}
