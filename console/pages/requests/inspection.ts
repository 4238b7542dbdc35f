/** The types of one request, as the API returns it. */

import type { ResponseBody } from "../../api.ts";

export type Inspection = ResponseBody<"usage.request">;
