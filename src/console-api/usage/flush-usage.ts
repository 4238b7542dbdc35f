/** Writes pending usage rows before they are read, because usage is written shortly after the response. */

import { storeUnavailable } from "../../errors.ts";
import type { ConsoleContext } from "../context.ts";

/** Flushes the usage of all users, so that a reader sees the latest requests. */
export function flushUsage({ gateway }: Pick<ConsoleContext, "gateway">): Promise<void> {
  return orStoreError(gateway.billingEngine.flush());
}

/** Flushes the usage of one user. The wallet reservation of the user is returned first. */
export function flushUsageFor({ gateway }: Pick<ConsoleContext, "gateway">, userId: string): Promise<void> {
  return orStoreError(gateway.billingEngine.flushUser(userId));
}

async function orStoreError(flushed: Promise<void>): Promise<void> {
  await flushed.catch(() => {
    throw storeUnavailable();
  });
}
