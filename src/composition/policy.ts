/** Opens the live policy, and the simulator that an account of the policy may use as its upstream. */

import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type LivePolicy, openLivePolicy } from "../policy/live-policy.ts";
import type { ProcessContext } from "./process-context.ts";

export async function openPolicy(context: ProcessContext): Promise<LivePolicy> {
  const { installation, limits, log, closers } = context;
  let simulator: Simulator | null = null;
  closers.add(async () => {
    await simulator?.stop();
  });
  const policy = await openLivePolicy({
    db: installation.db,
    clock: installation.clock,
    keyring: installation.keyring,
    // Started only when an account uses it.
    simulatorUrl() {
      simulator ??= startSimulator({});
      return simulator.url;
    },
    log,
    pollMs: limits.policyPollMs,
    timeoutMs: limits.policyPollTimeoutMs,
  });
  closers.add(() => policy.close());
  return policy;
}
