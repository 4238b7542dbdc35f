/** Routes for the keys of all users, for administrators. */

import { z } from "zod";
import { listKeyPage } from "../../store/policy/key-list.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";
import {
  keyStatusQuery,
  listedKeyObject,
  listedKeyResponse,
  listedStatus,
  recentDays,
} from "../keys/key-view.ts";
import { flushUsage } from "../usage/flush-usage.ts";

const keyCursor = z.tuple([z.number(), z.string()]);

const ownedKeyResponse = z.object({
  ...listedKeyResponse.shape,
  /** Null: the key belongs to no user. The e-mail address is null after the user was deleted. */
  owner: z.object({ id: z.string(), email: z.string().nullable() }).nullable(),
});

export const adminKeyRoutes = {
  "admin.keys.list": forAdmins({
    method: "GET",
    path: "/api/admin/keys",
    summary:
      "List the API keys of all users, newest first. `search` matches name, id, public id, owner and group",
    query: z.strictObject({
      ...pageQuery,
      ...searchQuery,
      /** A user id, or `none` for keys that belong to no user. */
      user: z.string().max(100).optional(),
      /** The name of a group. */
      group: z.string().max(200).optional(),
      status: keyStatusQuery,
    }),
    response: buildPage(ownedKeyResponse),
    async run(context, { query }) {
      const { db, clock } = context.installation;
      await flushUsage(context);
      const cursor = readCursor(query.after, keyCursor);
      const owner = findOwner(context.gateway.policy.snapshot().groups.values(), query);
      if (owner === null) return { data: [], next: null };
      const { keys, next } = await listKeyPage(
        db,
        {
          ...owner,
          ...listedStatus(query.status),
          ...(query.search === undefined ? {} : { search: readKeySearch(query.search), isWideSearch: true }),
        },
        { after: cursor === null ? null : { createdAtMs: cursor[0], id: cursor[1] }, limit: query.limit },
      );
      const ids = keys.map(({ id }) => id);
      const { firstDayMs, byKey } = await recentDays(db, ids, clock.nowMs());
      const emails = await lookUpNames(
        db,
        "user",
        keys.map(({ userId }) => userId),
      );
      return {
        data: keys.map((key) => ({
          ...listedKeyObject(context, key, byKey.get(key.id) ?? [], firstDayMs),
          owner: key.userId === null ? null : { id: key.userId, email: emails.get(key.userId) ?? null },
        })),
        next: next === null ? null : cursorText([next.createdAtMs, next.id]),
      };
    },
  }),
};

/** A secret may have been pasted: only its public part is searched. */
function readKeySearch(search: string): string {
  return /^gwk_([0-9A-Za-z]{1,8})/.exec(search)?.[1] ?? search;
}

/** Null if there is no such group. */
function findOwner(
  groups: Iterable<{ id: string; name: string }>,
  { user, group }: { user?: string | undefined; group?: string | undefined },
): Pick<Parameters<typeof listKeyPage>[1], "owner"> | null {
  if (user !== undefined) return { owner: { userId: user === "none" ? null : user } };
  if (group === undefined) return {};
  const found = Iterator.from(groups).find(({ name }) => name === group);
  return found === undefined ? null : { owner: { groupId: found.id } };
}
