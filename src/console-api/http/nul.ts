/** Rejects U+0000, which JSON can express but the database cannot store in a text. */

import { ApiError } from "../../errors.ts";

/** Searches the whole value at any depth. It uses an explicit stack, which cannot overflow. */
export function refuseNul(sent: unknown): void {
  const pending = [{ field: "", value: sent }];
  for (let one = pending.pop(); one !== undefined; one = pending.pop()) {
    const { field, value } = one;
    if (typeof value === "string") refuseText(field, value);
    if (typeof value !== "object" || value === null) continue;
    for (const [name, inner] of Object.entries(value)) {
      refuseText(field, name);
      pending.push({ field: field === "" ? name : `${field}.${name}`, value: inner });
    }
  }
}

function refuseText(field: string, text: string): void {
  if (!text.includes("\0")) return;
  const message = "holds the character U+0000, which no text here may. Take it out.";
  throw new ApiError("invalid_value", field === "" ? `What was sent ${message}` : `${field}: ${message}`, {
    param: field || null,
  });
}
