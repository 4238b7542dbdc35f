/** Failed attempts that upstreams bill although the client receives nothing of them. The operator pays for them. */

import { NOTHING_USED, type PricedUsage } from "../../money/tariff.ts";
import { estimateInput, type InputEstimates } from "../metering/input-estimate.ts";
import { boundReport } from "../metering/usage-bounds.ts";
import type { Trace } from "../request/trace.ts";
import type { ReadRequest } from "../request-context.ts";

export interface WastedAttempt {
  /** The number of its fallback step; null without fallback. */
  readonly step: number | null;
  readonly used: PricedUsage;
}

/** Failures after which an upstream may have processed the request and will bill at least its input. */
const MAY_BE_BILLED: ReadonlySet<string> = new Set([
  "timeout",
  "reset",
  "bad_answer",
  "too_large",
  "out_of_bounds",
  "unstreamed",
]);

/** The number of failed attempts that an upstream may have processed. */
export function countWastedAttempts({ attempts }: Trace): number {
  let count = 0;
  for (const { failure } of attempts) if (failure !== null && MAY_BE_BILLED.has(failure)) count++;
  return count;
}

const NONE: readonly WastedAttempt[] = [];

/** Each with the usage that it reported, or else with the input if its upstream may have processed it. */
export function measureWastedAttempts(
  { estimates }: { readonly estimates: Pick<InputEstimates, "estimate"> },
  context: ReadRequest,
): readonly WastedAttempt[] {
  const { attempts } = context.trace;
  if (attempts.every(({ failure }) => failure === null)) return NONE;
  return attempts.flatMap(({ failure, wastedUsage: usage, step }) => {
    if (failure === null) return [];
    const report = usage === null ? null : boundReport(context, { usage, images: 0 }).usage;
    if (report === null && !MAY_BE_BILLED.has(failure)) return [];
    const used = report ?? { inputTokens: estimateInput(estimates, context) };
    return [{ step: step?.number ?? null, used: { ...NOTHING_USED, ...used } }];
  });
}
