/** The types of one request, as the API returns it. */

import type { Answer } from "../../api.ts";

export type Inspection = Answer<"usage.request">;
