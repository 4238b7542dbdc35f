/** Pagination of lists: each page begins where the previous one ended. */

import { z } from "zod";
import { fieldError } from "./field-error.ts";
import { rejectNul } from "./reject-nul.ts";

const PAGE_LIMIT_MAX = 200;

export const pageQuery = {
  /** The `next` of the previous page. */
  after: z.string().max(500).optional(),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(50),
};

export const searchQuery = { search: z.string().trim().max(200).optional() };

/** Restricts a list to what belongs to a group, by its name. */
export const groupQuery = { group: z.string().max(64).optional() };

export function buildPage<Item extends z.ZodType>(item: Item) {
  return z.object({ data: z.array(item), next: z.string().nullable() });
}

/** Cursors are opaque to clients, which only send them back. */
export function cursorText(values: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(values)).toString("base64url");
}

export function readCursor<Form extends z.ZodType>(
  after: string | undefined,
  form: Form,
): z.output<Form> | null {
  if (after === undefined) return null;
  try {
    const decoded: unknown = JSON.parse(Buffer.from(after, "base64url").toString());
    rejectNul(decoded);
    return form.parse(decoded);
  } catch {
    throw fieldError("after", "invalid_value", "is not a valid `next` value of this list.");
  }
}
