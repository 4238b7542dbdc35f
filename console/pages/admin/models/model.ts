/** The types of a model, as the API returns it. */

import type { ListRow } from "../../../api.ts";

export type Model = ListRow<"admin.models.list">;
