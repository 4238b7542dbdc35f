/** The types of a user, as the API returns it. */

import type { Answer } from "../../../api.ts";

/** A user as the page about one user shows it. */
export type UserDetail = Answer<"admin.users.get">;
