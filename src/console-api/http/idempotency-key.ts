/** The idempotency key of an operation that moves money: `Idempotency-Key`, or a field of the body. */

import { z } from "zod";
import { readIdempotencyKey } from "../../gateway/idempotency/idempotency-key.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { fieldError } from "./field-error.ts";

/** Repeating a key posts nothing and returns the first response. */
export const orderKeyField = z
  .string()
  .regex(/^[\x21-\x7e]{1,200}$/, { error: "must be 1 to 200 visible ASCII characters" })
  .optional();

/** In the form that the lower layers expect: no property if there is no key. */
export function readOrderKey(
  headers: HeaderReader,
  field: string | undefined,
): { readonly idempotencyKey?: string } {
  const header = readIdempotencyKey(headers) ?? undefined;
  if (header !== undefined && field !== undefined && header !== field) {
    throw fieldError(
      "idempotency_key",
      "invalid_value",
      "differs from the header Idempotency-Key. Send only one of them, or the same value in both.",
    );
  }
  const idempotencyKey = header ?? field;
  return idempotencyKey === undefined ? {} : { idempotencyKey };
}
