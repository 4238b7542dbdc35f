/** Maps a stored response to its key and account. Later calls go to that account, for that key. */

import type { EndedResponse } from "../../protocols/whole-response.ts";
import type { Db } from "../../store/engine/db.ts";
import { recordResponse } from "../../store/money/holds.ts";
import { findMessageRoute, findRoute, type StoredResponseRoute } from "../../store/usage/usage.ts";
import type { MeteredModel } from "../metering/usage-bounds.ts";

export interface ResponseRoute {
  /** Responses that are retrieved and continued, or messages that their threads continue from. */
  kind: "response" | "message";
  requestId: string;
  keyId: string;
  accountId: string;
  publicModel: string;
  upstreamModel: string;
  /** A background response whose usage is not known yet. */
  pending: boolean;
  /** For such a response: the price and limits at admission, which are not in the database. */
  terms?: MeteredModel;
  /**
   * For a paid response that may continue upstream: settles it if it has ended, and returns whether it is settled.
   * `ended` is its end, if the caller has read it.
   */
  checkSettled?(ended?: EndedResponse): Promise<boolean>;
}

export interface ResponseRoutes {
  add(responseId: string, route: ResponseRoute): void;
  /**
   * Announces a paid response in progress to the other processes on this database. Returns false if the database has no
   * hold of the request.
   */
  announce(responseId: string, requestId: string, accountId: string, upstreamModel: string): Promise<boolean>;
  /** Returns null if the response is unknown or belongs to another key. */
  find(responseId: string, keyId: string): Promise<ResponseRoute | null>;
  /** The same for a message that a thread continues from. */
  findMessage(messageId: string, keyId: string): Promise<ResponseRoute | null>;
  remove(responseId: string): void;
}

export interface ResponseRouteOptions {
  readonly rememberedMax: number;
  readonly threadRowsMax: number;
  /** `checkSettled` of a response that this process knows by its hold only. */
  checkHeld(requestId: string, ended?: EndedResponse): Promise<boolean>;
}

/** Recent responses are in memory. Usage rows have the others, and holds those that are still in progress. */
export function openResponseRoutes(
  db: Db,
  { rememberedMax, threadRowsMax, checkHeld }: ResponseRouteOptions,
): ResponseRoutes {
  const recent = new Map<string, ResponseRoute>();
  const findResponse = async (id: string) => toRoute(await findRoute(db, id), "response");
  const findMessage = async (messageId: string, keyId: string) =>
    toRoute(await findMessageRoute(db, { messageId, keyId }, threadRowsMax), "message");
  function toRoute(row: StoredResponseRoute | null, kind: ResponseRoute["kind"]): ResponseRoute | null {
    if (row === null || row.accountId === null) return null;
    return {
      kind,
      requestId: row.requestId,
      keyId: row.keyId,
      accountId: row.accountId,
      publicModel: row.publicModel,
      upstreamModel: row.upstreamModel ?? row.publicModel,
      pending: !row.isHeld && row.outcome === "pending",
      ...(row.isHeld ? { checkSettled: (ended) => checkHeld(row.requestId, ended) } : {}),
    };
  }
  const find = async (id: string, keyId: string, kind: ResponseRoute["kind"]) => {
    const route = recent.get(id) ?? (await (kind === "message" ? findMessage : findResponse)(id, keyId));
    return route !== null && route.keyId === keyId && route.kind === kind ? route : null;
  };
  return {
    add(responseId, route) {
      // As in the database, the first key with an id keeps it, so that no other key can take a response over.
      const current = recent.get(responseId);
      if (current && current.keyId !== route.keyId) return;
      recent.delete(responseId);
      recent.set(responseId, route);
      if (recent.size > rememberedMax) {
        const oldest = recent.keys().next();
        if (!oldest.done) recent.delete(oldest.value);
      }
    },
    announce: (responseId, requestId, accountId, upstreamModel) =>
      recordResponse(db, requestId, { responseId, accountId, upstreamModel }),
    find: (responseId, keyId) => find(responseId, keyId, "response"),
    findMessage: (messageId, keyId) => find(messageId, keyId, "message"),
    remove: (responseId) => void recent.delete(responseId),
  };
}
