import { storeUnavailable } from "../../errors.ts";
import type { ConsoleContext } from "../context.ts";

/** Usage is written a moment after the answer: whoever looks wants to see the last request, too. */
export function flushUsage({ gateway }: ConsoleContext): Promise<void> {
  return orRefuse(gateway.till.flush());
}

/** The same for one user. What was set aside of the wallet for requests to come goes back first. */
export function flushUsageFor({ gateway }: ConsoleContext, userId: string): Promise<void> {
  return orRefuse(gateway.till.settleUp(userId));
}

async function orRefuse(written: Promise<void>): Promise<void> {
  await written.catch(() => {
    throw storeUnavailable();
  });
}
