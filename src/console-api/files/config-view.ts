/** Differences and problems of a configuration file in the shape of the console API. */

import { createHash } from "node:crypto";
import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import type { PlannedChanges } from "../../config/plan/apply.ts";
import type { Problem } from "../../config/state/problem.ts";
import type { Change } from "../../config/state/step.ts";

export const changeResponse = z.object({
  kind: z.enum(["create", "change", "remove"]),
  /** `account openai-1` */
  what: z.string(),
  fields: z.array(
    z.object({
      field: z.string(),
      /** Null if the value did not exist, or is removed. For secrets only the fact that they changed is shown. */
      from: z.string().nullable(),
      to: z.string().nullable(),
    }),
  ),
});

export function changeObject({ kind, what, fields }: Change): z.input<typeof changeResponse> {
  return { kind, what, fields: fields.map(({ field, from, to }) => ({ field, from, to })) };
}

export const problemsResponse = z.array(
  z.object({
    /** From 1; 0 if the problem has no position in the text. */
    line: z.number(),
    column: z.number(),
    field: z.string(),
    message: z.string(),
  }),
);

export function problemObjects(problems: readonly Problem[]): z.input<typeof problemsResponse> {
  return problems
    .slice(0, limits.apiProblemsMax)
    .map(({ line, column, field, message }) => ({ line, column, field, message }));
}

/** Identifies a plan: two plans with the same name change the same entries to the same values. */
export function planName({ changes, notes }: PlannedChanges): string {
  return createHash("sha256")
    .update(JSON.stringify([changes.map(changeObject), notes]))
    .digest("hex")
    .slice(0, 32);
}
