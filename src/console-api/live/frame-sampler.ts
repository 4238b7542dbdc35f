/** Takes one frame of live data after another. Rates are computed from the difference to the previous frame. */

import type { Alerts } from "../../alerts/engine.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { usdText } from "../../money/nano.ts";
import type { Traffic } from "../../observe/traffic.ts";
import type { LiveFrame } from "./live-frame.ts";

export interface FrameSamplerOptions {
  gateway: Gateway;
  alerts: Pick<Alerts, "spentToday">;
  /** The name of this process, known once the server listens. */
  node(): string;
  /** The rates of a first frame are computed as if the frame before was this much older. */
  frameIntervalMs: number;
}

interface TrafficReading {
  readonly traffic: Readonly<Traffic>;
  readonly atMs: number;
}

const ACCOUNTS_MAX = 200;
const RATE_SECONDS_MIN = 0.1;

export class FrameSampler {
  readonly #options: FrameSamplerOptions;
  #previous: TrafficReading | null = null;

  constructor(options: FrameSamplerOptions) {
    this.#options = options;
  }

  next(nowMs: number): LiveFrame {
    const { gateway, alerts, node } = this.#options;
    const accounts = describeAccounts(gateway);
    const spent = alerts.spentToday();
    return {
      at: gateway.clock.nowMs(),
      node: node(),
      ...this.#computeRates(nowMs),
      in_flight: accounts.reduce((sum, { in_flight }) => sum + in_flight, 0),
      ...countWaiting(gateway),
      large_bodies: describeLargeBodies(gateway),
      spent_today: spent === null ? null : usdText(BigInt(Math.round(spent.nano))),
      accounts: accounts.slice(0, ACCOUNTS_MAX),
    };
  }

  /** The next frame is a first one. */
  reset(): void {
    this.#previous = null;
  }

  #computeRates(nowMs: number) {
    const { gateway, frameIntervalMs } = this.#options;
    const current = { ...gateway.traffic };
    const previous = this.#previous ?? { traffic: current, atMs: nowMs - frameIntervalMs };
    this.#previous = { traffic: current, atMs: nowMs };
    const seconds = Math.max(RATE_SECONDS_MIN, (nowMs - previous.atMs) / 1000);
    const computeRate = (readCount: (traffic: Traffic) => number) =>
      Math.round(((readCount(current) - readCount(previous.traffic)) / seconds) * 10) / 10;
    return {
      requests_per_s: computeRate(({ requests }) => requests),
      tokens_per_s: computeRate(({ inputTokens, outputTokens }) => inputTokens + outputTokens),
      errors_per_s: computeRate(({ errors }) => errors),
      refused_per_s: computeRate(({ refused }) => refused),
    };
  }
}

function countWaiting({ policy, dispatcher, concurrencyQueue }: Gateway) {
  const groupIds = [...policy.snapshot().groups.keys()];
  return {
    waiting: groupIds.reduce((sum, id) => sum + dispatcher.waitingQueue.countWaiting(id), 0),
    waiting_for_slot: groupIds.reduce((sum, id) => sum + concurrencyQueue.waiting(id), 0),
  };
}

function describeLargeBodies({ bodyBudget }: Gateway): LiveFrame["large_bodies"] {
  const { heldBytes, bytesMax, waiting, refused } = bodyBudget.report();
  return { held_bytes: heldBytes, bytes_max: bytesMax, waiting, refused };
}

const URGENCY = { parked: 0, cooling: 1, probing: 2, untried: 3, well: 4 } as const;

function describeAccounts({ policy, dispatcher }: Gateway): LiveFrame["accounts"] {
  return [...policy.snapshot().accounts.values()]
    .map((account) => {
      const { condition, isTried, cause, freesInMs, inFlight, models } = dispatcher.pool.report(account);
      const latencies = models.flatMap(({ latencyMs }) => latencyMs ?? []);
      return {
        id: account.id,
        name: account.name,
        condition: condition === "well" && !isTried ? ("untried" as const) : condition,
        cause,
        frees_in_ms: freesInMs === null ? null : Math.round(freesInMs),
        in_flight: inFlight,
        ill_models: models.filter((model) => model.condition !== "well").length,
        latency_ms:
          latencies.length === 0
            ? null
            : Math.round(latencies.reduce((sum, ms) => sum + ms, 0) / latencies.length),
      };
    })
    .sort(
      (a, b) =>
        URGENCY[a.condition] - URGENCY[b.condition] ||
        b.ill_models - a.ill_models ||
        b.in_flight - a.in_flight ||
        (a.name < b.name ? -1 : 1),
    );
}
