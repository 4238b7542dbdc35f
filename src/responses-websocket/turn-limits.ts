/** Limits that a turn of a WebSocket connection must meet before it is queued or started. */

import { ApiError } from "../errors.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { CreateFrame } from "./client-frame.ts";

/** Returns the error for a message that is larger than the limit, or null. */
export function findSizeError({ bytes }: CreateFrame, bytesMax: number): ApiError | null {
  if (bytes.length <= bytesMax) return null;
  const mebibytes = Math.floor(bytesMax / 2 ** 20);
  return new ApiError("request_too_large", `The message is larger than ${mebibytes} MiB. Shorten it.`);
}

/** Additional turns above the key's or group's concurrency would only wait in the group's queue. */
export function computeTurnsMax(
  { auth, policy }: Pick<Gateway, "auth" | "policy">,
  keyDigest: string,
  connectionMax: number,
): number {
  const key = auth.keys.find(keyDigest, auth.nowMs());
  const group = key && policy.snapshot().groups.get(key.groupId);
  return Math.min(
    connectionMax,
    key?.limits.concurrency ?? Number.POSITIVE_INFINITY,
    group?.limits.concurrency ?? Number.POSITIVE_INFINITY,
  );
}
