/** Runs load on nodes, in a process of its own. */

import type { NodeLoad, NodeLoadReport } from "./node-load.ts";
import { type Installation, listKeys } from "./paid-nodes.ts";
import { chatBody } from "./request-bodies.ts";
import type { BenchHost } from "./single-measures.ts";
import { type RoundPlan, warmUp } from "./warm-up.ts";

const CONNECTIONS = 32;
const PATH = "/v1/chat/completions";
const BODY = chatBody(1_000);

export async function warmUpNodes(
  place: BenchHost,
  plan: Pick<RoundPlan, "warmUp">,
  { name, nodes }: Installation,
): Promise<void> {
  for (const { url, running } of nodes) {
    const text = await warmUp(running.pid, plan.warmUp, (durationMs) =>
      runNodeLoad(place, { urls: [url], durationMs, requestsPerSecond: null }),
    );
    place.progress(`${name}: the node ${text}`);
  }
}

export async function runNodeLoad(
  place: BenchHost,
  load: Partial<NodeLoad> & Pick<NodeLoad, "urls" | "durationMs" | "requestsPerSecond">,
): Promise<NodeLoadReport> {
  const whole: NodeLoad = {
    keys: listKeys("limited"),
    path: PATH,
    body: BODY,
    connections: CONNECTIONS,
    keyReaches: "all nodes",
    ...load,
  };
  const printed = await place.stage.runToEnd({
    name: "load of nodes",
    command: [place.bun, `${import.meta.dir}/node-load.ts`],
    core: place.loadCore,
    input: JSON.stringify(whole),
  });
  const report: NodeLoadReport = JSON.parse(printed);
  return report;
}
