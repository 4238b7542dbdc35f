/** The schema of one frame of live data. */

import { z } from "zod";

export const liveResponse = z.object({
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

export type LiveFrame = z.input<typeof liveResponse>;
