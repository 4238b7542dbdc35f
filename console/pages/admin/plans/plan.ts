/** The types of a plan, as the API returns it. */

import type { ListRow } from "../../../api.ts";

export type Plan = ListRow<"admin.plans.list">;
