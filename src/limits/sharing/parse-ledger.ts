/** Reads the ledger from the document of a coordinator, which may hold anything that was written to it. */

import { z } from "zod";
import type { Ledger } from "./ledger.ts";

const counter = z.int().nonnegative();
const members = z.array(z.string());
const byName = <T extends z.ZodType>(value: T) => z.record(z.string(), value);

const ledgerNode = z.object({
  write: counter,
  beatMs: z.number(),
  version: counter,
  stage: z.literal([0, 1, 2]),
  serial: counter,
  hasLeft: z.boolean(),
  earlier: z
    .object({
      members,
      deltas: byName(z.number()),
      limits: byName(z.number()).exactOptional(),
      hasEnded: z.boolean().exactOptional(),
    })
    .nullable(),
});

const ledgerRow = z.object({
  delta: z.number(),
  wish: z.number().nonnegative(),
  need: z.number().nonnegative(),
  deficit: z.number().nonnegative(),
  limit: z.number().nonnegative(),
});

const ledgerShape: z.ZodType<Ledger> = z.object({
  format: z.literal(1),
  epoch: z.string(),
  serial: counter,
  version: counter,
  members,
  nodes: byName(ledgerNode),
  meters: byName(byName(ledgerRow)),
});

/** Null if there is no ledger. A document of any other shape is replaced as if it were lost. */
export function parseLedger(text: string | null, charsMax: number): Ledger | null {
  if (text === null || text.length > charsMax) return null;
  try {
    const { data } = ledgerShape.safeParse(JSON.parse(text));
    return data ?? null;
  } catch {
    return null;
  }
}
