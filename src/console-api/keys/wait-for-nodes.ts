/** Waits until the other nodes know a new secret. A request with it may reach any node. */

import { limits } from "../../config/limits/product-limits.ts";
import { listNodes } from "../../store/nodes/nodes.ts";
import type { StoreContext } from "../context.ts";

const POLL_ROUND_TRIP_MS = 100;

/** Each node reads changes in its next poll. `polls` above one also covers a poll that was slow or failed. */
export async function waitForOtherNodes({ installation }: StoreContext, polls: number): Promise<void> {
  const { db, clock } = installation;
  const nodes = await listNodes(db, clock);
  if (nodes.length > 1) await Bun.sleep(limits.policyPollMs * polls + POLL_ROUND_TRIP_MS);
}
