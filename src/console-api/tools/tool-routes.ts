/** Routes for people who sign in a tool, and for the list of their signed-in tools. */

import { z } from "zod";
import { findUser } from "../../store/identity/users.ts";
import { readLastUse } from "../../store/policy/key-list.ts";
import { findKey } from "../../store/policy/keys.ts";
import { listTools } from "../../store/policy/tool-keys.ts";
import { ownerQuery, resolveOwner } from "../auth/owner.ts";
import { nameField } from "../forms/fields.ts";
import { forUsers } from "../http/route.ts";
import { lookUpGroupName } from "../keys/key-view.ts";
import { flushUsage } from "../usage/flush-usage.ts";
import { approve, deny, findRequest } from "./device-flow.ts";
import { listOfferedGroups, requireToolSignIn } from "./tool-context.ts";

/** As the person types it. */
const userCode = z.string().min(1).max(64);

export const toolRoutes = {
  "tools.find": forUsers({
    tokenScope: "none",
    method: "POST",
    path: "/api/tools/find",
    summary: "Find the sign-in of a tool by the code that it shows. Nothing is approved",
    body: z.strictObject({ user_code: userCode }),
    response: z.object({
      /** The network address that the tool signs in from, and whether it is the caller's. */
      address: z.string(),
      is_own_address: z.boolean(),
      started_at: z.number(),
      expires_at: z.number(),
      /** Names of the groups that the tool may use, the preferred one first. */
      groups: z.array(z.string()),
    }),
    async run(context, input) {
      const found = await findRequest(context, input, input.body.user_code);
      const user = await findUser(context.installation.db, input.actor.userId);
      const offered = user === null ? [] : listOfferedGroups(context, requireToolSignIn(context), user);
      return {
        address: found.address,
        is_own_address: found.address === input.clientAddress,
        started_at: found.createdAtMs,
        expires_at: found.expiresAtMs,
        groups: offered.map(({ name }) => name),
      };
    },
  }),

  "tools.approve": forUsers({
    tokenScope: "none",
    method: "POST",
    path: "/api/tools/approve",
    summary: "Sign in the tool that shows a code. It calls models as the caller until its sign-in ends",
    body: z.strictObject({
      user_code: userCode,
      /** What the list of tools shows. */
      name: nameField,
      /** The name of a group. */
      group: z.string(),
    }),
    response: z.object({ name: z.string() }),
    async run(context, input) {
      const { user_code, name, group } = input.body;
      await approve(context, input, await findRequest(context, input, user_code), { name, group });
      return { name };
    },
  }),

  "tools.deny": forUsers({
    tokenScope: "none",
    method: "POST",
    path: "/api/tools/deny",
    summary: "Reject the sign-in of the tool that shows a code",
    body: z.strictObject({ user_code: userCode }),
    response: z.object({ denied: z.boolean() }),
    async run(context, input) {
      await deny(context, input, await findRequest(context, input, input.body.user_code));
      return { denied: true };
    },
  }),

  "tools.list": forUsers({
    method: "GET",
    path: "/api/tools",
    summary: "List signed-in tools, newest first. To end a sign-in, revoke the key with its id",
    query: z.strictObject(ownerQuery),
    response: z.object({
      data: z.array(
        z.object({
          /** The id of its key. */
          id: z.string(),
          name: z.string(),
          group: z.string(),
          /** The network address at the sign-in. */
          address: z.string(),
          signed_in_at: z.number(),
          last_used_at: z.number().nullable(),
          /** When the sign-in ends unless the tool is used. */
          ends_at: z.number(),
        }),
      ),
    }),
    async run(context, { actor, query }) {
      const { db } = context.installation;
      await flushUsage(context);
      const tools = await listTools(db, resolveOwner(actor, query.user));
      const rows = await Promise.all(
        tools.map(async (tool) => {
          const key = await findKey(db, tool.keyId);
          if (key === null) return [];
          return {
            id: key.id,
            name: key.name,
            group: lookUpGroupName(context, key.groupId),
            address: tool.address,
            signed_in_at: tool.createdAtMs,
            last_used_at: await readLastUse(db, key.id),
            ends_at: tool.idleEndMs,
          };
        }),
      );
      return { data: rows.flat() };
    },
  }),
};
