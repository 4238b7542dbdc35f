/**
 * Streams live data of this process to the console once a second. It is computed once for all viewers, and only
 * while there are any.
 */

import { z } from "zod";
import type { Alerts } from "../../alerts/engine.ts";
import { ApiError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { usdText } from "../../money/nano.ts";
import type { Traffic } from "../../observe/traffic.ts";

export const liveAnswer = z.object({
  at: z.number(),
  /** The process that reports. Others are not included. */
  node: z.string(),
  requests_per_s: z.number(),
  /** Input and output tokens, counted when a request ends. */
  tokens_per_s: z.number(),
  errors_per_s: z.number(),
  refused_per_s: z.number(),
  /** Attempts in flight at upstreams. */
  in_flight: z.number(),
  /** Requests in the queues of all groups, for an account slot or for a concurrency limit. */
  waiting: z.number(),
  /** Those of them that wait for the concurrency limit of their key, user or group. */
  waiting_for_slot: z.number(),
  /** Request bodies above 1 MiB: how much of their memory budget is used, and how many requests wait for it. */
  large_bodies: z.object({
    held_bytes: z.number(),
    bytes_max: z.number(),
    waiting: z.number(),
    /** Since the process started. */
    refused: z.number(),
  }),
  /** USD at list price since midnight UTC; null until it is known. */
  spent_today: z.string().nullable(),
  /** Accounts that need attention are listed first. At most 200. */
  accounts: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      condition: z.enum(["well", "untried", "cooling", "probing", "parked"]),
      cause: z.string().nullable(),
      frees_in_ms: z.number().nullable(),
      in_flight: z.number(),
      /** Models of the account that are not healthy. */
      ill_models: z.number(),
      /** Time to the first byte over all models; null before the first response. */
      latency_ms: z.number().nullable(),
    }),
  ),
});

type Frame = z.input<typeof liveAnswer>;

export interface Live {
  /** Server-sent events, the first one immediately. Ends when `signal` is aborted, and after `WATCH_MS_MAX`. */
  watch(signal: AbortSignal, watcher: Watcher): ReadableStream<Uint8Array>;
}

export interface Watcher {
  readonly userId: string;
  /** Called every few frames: a stream must end when the access of its viewer is revoked. */
  mayStill(): Promise<boolean>;
}

const EVERY_MS = 1_000;
const RECHECK_MS = 3_000;
/** The browser reconnects afterwards. */
const WATCH_MS_MAX = 300_000;
const STREAMS_PER_USER_MAX = 10;
const ACCOUNTS_MAX = 200;
/** A slow browser misses frames instead of accumulating them in memory. */
const FRAMES_KEPT = 4;

interface Viewer {
  readonly watcher: Watcher;
  readonly untilMs: number;
  lookAtMs: number;
  offer(bytes: Uint8Array): void;
  end(): void;
}

export function openLive(gateway: Gateway, alerts: Pick<Alerts, "spentToday">, node: () => string): Live {
  const { clock } = gateway;
  const encoder = new TextEncoder();
  const viewers = new Set<Viewer>();
  let timer: ReturnType<typeof setInterval> | null = null;
  let before: { traffic: Traffic; atMs: number } | null = null;

  function tick(): void {
    const nowMs = clock.monotonicMs();
    const bytes = encodeEvent(frame(nowMs));
    for (const viewer of [...viewers]) {
      if (nowMs >= viewer.untilMs) viewer.end();
      else viewer.offer(bytes);
      if (nowMs >= viewer.lookAtMs) void recheckAccess(viewer, nowMs);
    }
  }

  async function recheckAccess(viewer: Viewer, nowMs: number): Promise<void> {
    viewer.lookAtMs = nowMs + RECHECK_MS;
    if (!(await viewer.watcher.mayStill())) viewer.end();
  }

  function frame(nowMs: number): Frame {
    const { traffic } = gateway;
    const last = before ?? { traffic, atMs: nowMs - EVERY_MS };
    before = { traffic: { ...traffic }, atMs: nowMs };
    const seconds = Math.max(0.1, (nowMs - last.atMs) / 1000);
    const rate = (of: (counted: Traffic) => number) =>
      Math.round(((of(traffic) - of(last.traffic)) / seconds) * 10) / 10;
    const spent = alerts.spentToday();
    const { groups } = gateway.policy.snapshot();
    const accounts = accountsNow(gateway);
    const bodies = gateway.bodies.report();
    return {
      at: clock.nowMs(),
      node: node(),
      requests_per_s: rate(({ requests }) => requests),
      tokens_per_s: rate(({ inputTokens, outputTokens }) => inputTokens + outputTokens),
      errors_per_s: rate(({ errors }) => errors),
      refused_per_s: rate(({ refused }) => refused),
      in_flight: accounts.reduce((sum, { in_flight }) => sum + in_flight, 0),
      waiting: [...groups.keys()].reduce((sum, id) => sum + gateway.dispatcher.room.waiting(id), 0),
      waiting_for_slot: [...groups.keys()].reduce((sum, id) => sum + gateway.slots.waiting(id), 0),
      large_bodies: {
        held_bytes: bodies.heldBytes,
        bytes_max: bodies.bytesMax,
        waiting: bodies.waiting,
        refused: bodies.refused,
      },
      spent_today: spent === null ? null : usdText(BigInt(Math.round(spent.nano))),
      accounts: accounts.slice(0, ACCOUNTS_MAX),
    };
  }

  function encodeEvent(data: Frame): Uint8Array {
    return encoder.encode(`data: ${JSON.stringify(data)}\n\n`);
  }

  function removeViewer(viewer: Viewer): void {
    viewers.delete(viewer);
    if (viewers.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
    before = null;
  }

  return {
    watch(signal, watcher) {
      refuseTooMany(viewers, watcher);
      let viewer: Viewer | null = null;
      const onAbort = () => viewer?.end();
      return new ReadableStream(
        {
          start(controller) {
            const nowMs = clock.monotonicMs();
            viewer = {
              watcher,
              untilMs: nowMs + WATCH_MS_MAX,
              lookAtMs: nowMs + RECHECK_MS,
              offer(bytes) {
                if ((controller.desiredSize ?? 0) > 0) controller.enqueue(bytes);
              },
              end() {
                if (!viewers.has(this)) return;
                removeViewer(this);
                signal.removeEventListener("abort", onAbort);
                controller.close();
              },
            };
            viewers.add(viewer);
            signal.addEventListener("abort", onAbort);
            if (signal.aborted) return onAbort();
            timer ??= setInterval(tick, EVERY_MS);
            viewer.offer(encodeEvent(frame(nowMs)));
          },
          cancel() {
            signal.removeEventListener("abort", onAbort);
            if (viewer !== null) removeViewer(viewer);
          },
        },
        new CountQueuingStrategy({ highWaterMark: FRAMES_KEPT }),
      );
    },
  };
}

function refuseTooMany(viewers: ReadonlySet<Viewer>, { userId }: Watcher): void {
  const ownStreams = [...viewers].filter(({ watcher }) => watcher.userId === userId);
  if (ownStreams.length < STREAMS_PER_USER_MAX) return;
  throw new ApiError(
    "rate_limit_exceeded",
    `You are watching in ${STREAMS_PER_USER_MAX} places, which is as many as one user may. Close one of them.`,
  );
}

const URGENCY = { parked: 0, cooling: 1, probing: 2, untried: 3, well: 4 } as const;

function accountsNow({ policy, dispatcher }: Gateway): Frame["accounts"] {
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
