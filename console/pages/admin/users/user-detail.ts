/** The types of a user, as the API returns it. */

import type { ResponseBody } from "../../../api.ts";

/** A user as the page about one user shows it. */
export type UserDetail = ResponseBody<"admin.users.get">;
