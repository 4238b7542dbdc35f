import type { Answer } from "../../api.ts";

export type Inspection = Answer<"usage.request">;
