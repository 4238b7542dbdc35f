/** The record of a request, which the page cannot compute itself: `GET /v1/requests/{id}`. */

import { z } from "zod";

export interface Report {
  waitedMs: number;
  inputTokens: number;
  outputTokens: number;
  /** In USD, as the API writes it. */
  cost: string;
}

const reported = z.looseObject({
  usage: z.looseObject({ input_tokens: z.number(), output_tokens: z.number() }),
  money: z.looseObject({ cost: z.string() }),
  timing: z.looseObject({ waited_ms: z.number() }),
});

/** The last byte of a stream may arrive before its usage row is written. */
const TRIES = 4;
const BETWEEN_MS = 250;

/** Null if the gateway has no record. */
export async function askReport(requestId: string, key: string): Promise<Report | null> {
  for (let tries = 0; tries < TRIES; tries++) {
    const report = await askOnce(requestId, key);
    if (report !== null) return report;
    await new Promise((resolve) => setTimeout(resolve, BETWEEN_MS));
  }
  return null;
}

async function askOnce(requestId: string, key: string): Promise<Report | null> {
  try {
    const response = await fetch(`/v1/requests/${encodeURIComponent(requestId)}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const found = reported.safeParse(await response.json());
    if (!found.success) return null;
    const { usage, money, timing } = found.data;
    return {
      waitedMs: timing.waited_ms,
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      cost: money.cost,
    };
  } catch {
    return null;
  }
}
