/** Which key made a stored response, and on which account: later calls that name it go there, for that key alone. */

import type { Db } from "../../store/engine/db.ts";
import { isHeld, noteResponse } from "../../store/money/holds.ts";
import { findRoute } from "../../store/usage/usage.ts";
import type { MeteredModel } from "../metering/meter.ts";

export interface ResponseRoute {
  requestId: string;
  keyId: string;
  accountId: string;
  publicModel: string;
  upstreamModel: string;
  /** A background response whose usage is not known yet. */
  pending: boolean;
  /** Of such a one: the price and bounds with which it was admitted. The store does not know them. */
  terms?: MeteredModel;
  /** While it is followed to its end, here or elsewhere: true when it has ended, and is settled. */
  look?(): Promise<boolean>;
}

export interface ResponseRoutes {
  remember(responseId: string, route: ResponseRoute): void;
  /** For everyone else who serves from this store: a response under way that somebody pays for. */
  announce(responseId: string, requestId: string, accountId: string, upstreamModel: string): Promise<void>;
  /** Null when the response is unknown, or known to another key only. */
  find(responseId: string, keyId: string): Promise<ResponseRoute | null>;
  forget(responseId: string): void;
}

/** Recent ones are found in memory; the usage rows know the others, and holds those that are still being made. */
export function openResponseRoutes(db: Db, rememberedMax: number): ResponseRoutes {
  const recent = new Map<string, ResponseRoute>();
  return {
    remember(responseId, route) {
      // As in the store: whoever had the id first keeps it, so nobody takes a response over.
      const known = recent.get(responseId);
      if (known && known.keyId !== route.keyId) return;
      recent.delete(responseId);
      recent.set(responseId, route);
      if (recent.size > rememberedMax) {
        const oldest = recent.keys().next();
        if (!oldest.done) recent.delete(oldest.value);
      }
    },
    announce: (responseId, requestId, accountId, upstreamModel) =>
      noteResponse(db, requestId, { responseId, accountId, upstreamModel }),
    async find(responseId, keyId) {
      const route = recent.get(responseId) ?? (await findStored(db, responseId));
      return route !== null && route.keyId === keyId ? route : null;
    },
    forget: (responseId) => void recent.delete(responseId),
  };
}

async function findStored(db: Db, responseId: string): Promise<ResponseRoute | null> {
  const row = await findRoute(db, responseId);
  if (row === null || row.accountId === null) return null;
  return {
    requestId: row.requestId,
    keyId: row.keyId,
    accountId: row.accountId,
    publicModel: row.publicModel,
    upstreamModel: row.upstreamModel ?? row.publicModel,
    pending: !row.isHeld && row.outcome === "pending",
    // Another process follows it, or this one, which has forgotten.
    ...(row.isHeld ? { look: async () => !(await isHeld(db, row.requestId)) } : {}),
  };
}
