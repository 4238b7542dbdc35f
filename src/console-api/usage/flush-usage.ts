import { storeUnavailable } from "../../errors.ts";
import type { Control } from "../context.ts";

/** Usage is written a moment after the answer: whoever looks wants to see the last request, too. */
export function settled({ gateway }: Control): Promise<void> {
  return orRefuse(gateway.till.flush());
}

/** The same for one user. What was set aside of the wallet for requests to come goes back first. */
export function settledFor({ gateway }: Control, userId: string): Promise<void> {
  return orRefuse(gateway.till.settleUp(userId));
}

async function orRefuse(written: Promise<void>): Promise<void> {
  await written.catch(() => {
    throw storeUnavailable();
  });
}
