/**
 * Fallback among nodes of two versions: a file with it is rejected while a node of an earlier version runs, so it is
 * applied when the last one has ended, and the files are without it before the first one starts again.
 */

import { findProcessesBefore } from "../../src/store/engine/migrate.ts";
import { checked, type Finding, figure } from "./fault.ts";
import type { NodeCluster } from "./node-cluster.ts";
import type { Operator } from "./operator.ts";
import type { Setup } from "./setup.ts";
import { NODES_MIX, ROUTED_NODES_MIX, type Traffic } from "./traffic.ts";

/** Nodes look for changes twice a second; the rest is for a busy machine. */
const KNOWN_WITHIN_MS = 3_000;
const USED_MS = 5_000;
/** The first migration that knows fallback. */
const SCHEMA_WITH_FALLBACK = 12;

interface RoutingOptions {
  readonly cluster: NodeCluster;
  readonly operator: Operator;
  readonly traffic: Traffic;
  readonly plain: Setup;
  readonly routed: Setup;
  /** Whether the nodes begin with the plain setup. */
  readonly isSwitched: boolean;
}

export class RoutingSwitch {
  readonly #options: RoutingOptions;

  constructor(options: RoutingOptions) {
    this.#options = options;
  }

  /** While nodes of both versions run. */
  async checkRejection(): Promise<Finding[]> {
    const { cluster, operator, routed, isSwitched } = this.#options;
    if (!isSwitched) return [];
    const earlier = await findProcessesBefore(cluster.db, SCHEMA_WITH_FALLBACK);
    if (earlier.length === 0) return [figure("nodes that do not know fallback", 0)];
    const { code, output } = await operator.tryFile(routed);
    const isRejected = code !== 0 && output.includes("runs an earlier version");
    const got = isRejected ? "rejected" : output.trim();
    return [checked("a file with fallback beside a node of an earlier version", got, "rejected", isRejected)];
  }

  /** When no node of an earlier version runs. Returns after some traffic. */
  async turnOn(): Promise<void> {
    const { operator, traffic, routed, isSwitched } = this.#options;
    if (!isSwitched) return;
    await operator.useFile(routed);
    await Bun.sleep(KNOWN_WITHIN_MS);
    traffic.use(ROUTED_NODES_MIX);
    await Bun.sleep(USED_MS);
  }

  /** Before a node of an earlier version starts. The database has fallback until a file without it is applied. */
  async turnOff(): Promise<void> {
    const { operator, traffic, plain, isSwitched } = this.#options;
    if (!isSwitched) return;
    traffic.use(NODES_MIX);
    await Bun.sleep(KNOWN_WITHIN_MS);
    await operator.writeFiles(plain);
  }
}
