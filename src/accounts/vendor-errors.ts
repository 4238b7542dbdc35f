/** Classifies the errors of vendors that name them by type, as the kinds of accounts declare them. */

import type { UpstreamError } from "../protocols/shared/upstream-error.ts";
import type { FailureClass } from "./failure.ts";

export interface VendorErrors {
  /** By code. An error with another code belongs to another API. */
  readonly codes: ReadonlyMap<string, FailureClass>;
  /** By type, with any status, also inside a stream, where the status is 200. */
  readonly types: ReadonlyMap<string, FailureClass>;
  /** Types that other APIs use for invalid requests, too. */
  readonly ambiguousTypes: readonly string[];
  /** Beginnings of messages that say more than the type. The API never repeats a client's text there. */
  readonly texts: readonly VendorErrorText[];
}

interface VendorErrorText {
  readonly types: readonly string[];
  readonly begins: RegExp;
  readonly class: FailureClass;
}

/** Null for an error of another API, and for one that its status classifies well enough. */
export function classifyVendorError(
  { codes, types, ambiguousTypes, texts }: VendorErrors,
  status: number,
  { code, type, message }: UpstreamError,
): FailureClass | null {
  if (type === null) return null;
  if (code !== null) return codes.get(code) ?? null;
  const text = texts.find((one) => one.types.includes(type) && one.begins.test(message));
  if (text !== undefined) return text.class;
  const isInvalidRequest = status >= 400 && status < 500 && status !== 409;
  return isInvalidRequest && ambiguousTypes.includes(type) ? null : (types.get(type) ?? null);
}
