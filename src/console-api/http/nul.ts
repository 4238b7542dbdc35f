/** Rejects U+0000, which JSON can express but the database cannot store in a text. */

import { ApiError } from "../../errors.ts";

/** Searches the whole value at any depth. It uses an explicit stack, which cannot overflow. */
export function refuseNul(sent: unknown): void {
  const left = [{ field: "", value: sent }];
  for (let one = left.pop(); one !== undefined; one = left.pop()) {
    const { field, value } = one;
    if (typeof value === "string") refuseText(field, value);
    if (typeof value !== "object" || value === null) continue;
    for (const [name, inner] of Object.entries(value)) {
      refuseText(field, name);
      left.push({ field: field === "" ? name : `${field}.${name}`, value: inner });
    }
  }
}

function refuseText(field: string, text: string): void {
  if (!text.includes("\0")) return;
  const told = "holds the character U+0000, which no text here may. Take it out.";
  throw new ApiError("invalid_value", field === "" ? `What was sent ${told}` : `${field}: ${told}`, {
    param: field || null,
  });
}
