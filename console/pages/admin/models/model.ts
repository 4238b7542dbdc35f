import type { ListRow } from "../../../api.ts";

export type Model = ListRow<"admin.models.list">;
