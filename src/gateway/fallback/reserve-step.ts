/** Reserves the limits of the step in progress: of the first one as of any request, of later ones by moving. */

import { type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import type { LimitLease } from "../../limits/limiter-types.ts";
import type { AdmittedRequest } from "../request-context.ts";
import { type LimitServices, reserveLimits } from "../reserve-limits.ts";
import type { FallbackRun } from "../steps/fallback-run.ts";
import { moveLimits } from "./move-limits.ts";

export function reserveStep(
  services: LimitServices,
  context: AdmittedRequest,
  run: FallbackRun,
): MaybePromise<LimitLease> {
  const { lease, caller } = context;
  const groupId = run.leaseGroupId;
  const reserved =
    lease === null || groupId === null || run.isFirst
      ? reserveLimits(services, context)
      : moveLimits(services, context, { lease, groupId });
  return whenReady(reserved, (taken) => {
    run.noteReserved(caller.group.id);
    return taken;
  });
}
