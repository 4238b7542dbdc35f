/** A service account as the list returns it. */

import type { ListRow } from "../../../api.ts";

export type ServiceAccount = ListRow<"admin.service_accounts.list">;
