/** Rejects U+0000, which JSON can express but the database cannot store in a text. */

import { paramError } from "../../errors.ts";

/** Searches the whole value at any depth. It uses an explicit stack, which cannot overflow. */
export function rejectNul(input: unknown): void {
  const pending = [{ field: "", value: input }];
  for (let one = pending.pop(); one !== undefined; one = pending.pop()) {
    const { field, value } = one;
    if (typeof value === "string") rejectNulInText(field, value);
    if (typeof value !== "object" || value === null) continue;
    for (const [name, inner] of Object.entries(value)) {
      rejectNulInText(field, name);
      pending.push({ field: field === "" ? name : `${field}.${name}`, value: inner });
    }
  }
}

function rejectNulInText(field: string, text: string): void {
  if (!text.includes("\0")) return;
  const message = "contains the character U+0000, which is not allowed. Remove it.";
  throw paramError(
    field || null,
    "invalid_value",
    field === "" ? `The request ${message}` : `${field}: ${message}`,
  );
}
