/**
 * Measures how the work for a request grows with its size: the request is sent in four sizes, each twice the previous one.
 * The CPU time of the gateway's main thread counts, and the least of several runs, because other load on the machine can
 * only make a run longer. Each request prints a line like every other attack, and fails if the gateway has a slow turn.
 */

import { expect } from "bun:test";
import { readFileSync } from "node:fs";
import { rawRequest } from "../support/raw-http.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureTurns } from "./attack-setup.ts";

export type Send = (size: number) => Promise<unknown>;

export const AUTHORIZATION = `Bearer ${TEST_KEY}`;
/** Of a doubling. */
export const DOUBLING_MAX = 2.5;

const RUNS = 5;
const SIZES = [1, 2, 4, 8];
/** Below this duration the clock, timers and the garbage collector dominate. */
const NOISE_MS = 1.5;

export class GrowthMeter {
  readonly #target: AttackTarget;
  #sentBytes = 0;
  /** The status of the last response, or the last event of a turn. */
  #lastStatus: number | string = 0;

  constructor(target: AttackTarget) {
    this.#target = target;
  }

  /** What a request has sent, and its end. */
  note(bytes: number, status: number | string): void {
    this.#sentBytes += bytes;
    this.#lastStatus = status;
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<void> {
    const response = await fetch(`${this.#target.url}${path}`, { headers });
    await response.arrayBuffer();
    this.note(path.length + JSON.stringify(headers).length, response.status);
  }

  async post(path: string, body: string | FormData, headers: Record<string, string> = {}): Promise<void> {
    const type = typeof body === "string" ? { "content-type": "application/json" } : undefined;
    const response = await fetch(`${this.#target.url}${path}`, {
      method: "POST",
      body,
      headers: { ...type, authorization: AUTHORIZATION, ...headers },
    });
    await response.arrayBuffer();
    this.note(countBytes(body), response.status);
  }

  /** Sends the request unchanged, with all its header lines. */
  async sendRaw(request: string): Promise<void> {
    const { status } = await rawRequest(this.#target.url, request);
    this.note(request.length, status);
  }

  async expectLinear(name: string, unit: number, send: Send): Promise<void> {
    await send(unit * (SIZES.at(-1) ?? 1));
    this.#sentBytes = 0;
    let growth = Number.POSITIVE_INFINITY;
    const sentBytes = () => this.#sentBytes;
    await measureTurns(name, this.#target, {
      get bytes() {
        return sentBytes();
      },
      watchesHealth: false,
      run: async () => {
        growth = await this.#measureGrowth(name, unit, send);
      },
    });
    expect(growth).toBeLessThan(DOUBLING_MAX);
  }

  /** The cost factor of a doubling, averaged over three and over two doublings. */
  async #measureGrowth(name: string, unit: number, send: Send): Promise<number> {
    const costs: number[] = [];
    const statuses = new Set<number | string>();
    for (const factor of SIZES) {
      costs.push(await this.#leastCpuMs(send, unit * factor));
      statuses.add(this.#lastStatus);
    }
    // A size that a limit rejects costs less than it should, and the case would no longer measure what it names.
    expect([...statuses]).toEqual([this.#lastStatus]);
    const [first = 0, second = 0, , last = 0] = costs.map((ms) => Math.max(ms, NOISE_MS));
    // Computed in two ways, because a run can coincide with background work of the gateway.
    const growth = Math.max((last / first) ** (1 / 3), (last / second) ** (1 / 2));
    const figures = costs.map((ms, i) => `${unit * (SIZES[i] ?? 1)}: ${ms.toFixed(1)} ms`);
    console.log(
      `work: ${name}: ${figures.join(", ")}; × ${growth.toFixed(2)} a doubling (status ${this.#lastStatus})`,
    );
    return growth;
  }

  async #leastCpuMs(send: Send, size: number): Promise<number> {
    let least = Number.POSITIVE_INFINITY;
    for (let run = 0; run < RUNS; run++) {
      const before = this.#cpuMs();
      await send(size);
      least = Math.min(least, this.#cpuMs() - before);
    }
    return least;
  }

  /** The CPU time of the main thread so far. */
  #cpuMs(): number {
    return Number(readFileSync(`/proc/${this.#target.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  }
}

function countBytes(body: string | FormData): number {
  if (typeof body === "string") return Buffer.byteLength(body);
  let bytes = 0;
  body.forEach((value, name) => {
    bytes += name.length + (typeof value === "string" ? value.length : value.size);
  });
  return bytes;
}

export const times = (count: number, make: (i: number) => string, between = "") =>
  Array.from({ length: count }, (_, i) => make(i)).join(between);
