import type { ListRow } from "../../../api.ts";

export type Plan = ListRow<"admin.plans.list">;
