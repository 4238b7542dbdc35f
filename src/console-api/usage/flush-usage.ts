/** Writes pending usage rows before they are read, because usage is written shortly after the response. */

import { storeUnavailable } from "../../errors.ts";
import type { ConsoleContext } from "../context.ts";

/** Flushes the usage of all users, so that a reader sees the latest requests. */
export function flushUsage({ gateway }: ConsoleContext): Promise<void> {
  return orStoreError(gateway.till.flush());
}

/** Flushes the usage of one user. The wallet reservation of the user is returned first. */
export function flushUsageFor({ gateway }: ConsoleContext, userId: string): Promise<void> {
  return orStoreError(gateway.till.settleUp(userId));
}

async function orStoreError(flushed: Promise<void>): Promise<void> {
  await flushed.catch(() => {
    throw storeUnavailable();
  });
}
