/** Runs in which the response of the upstream grows, on a route. */

import type { Canned, Dialect, Lab, Result } from "./lab.ts";
import type { GrowthRun } from "./measure.ts";
import { CPU_MS_PER_MIB, plainRequest, runOnAccount } from "./routes.ts";

export interface ReplySetup {
  readonly stream: boolean;
  readonly reportsUsage: boolean;
  reply(bytes: number): Canned;
}

export const reportsUsage = (sample: object) => /"usage(?:Metadata)?":\{/.test(JSON.stringify(sample));

/** A plain request on a route, whose upstream responds with the given reply. */
export function buildReplyRun(
  lab: () => Lab,
  [client, account]: readonly [Dialect, Dialect],
  { stream, reportsUsage, reply }: ReplySetup,
): Pick<GrowthRun, "msPerMib" | "send"> {
  return {
    msPerMib:
      CPU_MS_PER_MIB[client === account ? "passed" : "translated"] +
      (reportsUsage ? 0 : CPU_MS_PER_MIB.counted),
    async send(bytes): Promise<Result> {
      const request = (model: string) => plainRequest(client, { model, stream });
      const result = await runOnAccount(lab(), account, request, reply(bytes));
      if (!result.isForwarded) throw new Error(`the account of ${account} was not used: ${result.text}`);
      return result;
    },
  };
}
