/**
 * The schema migrations, in order, forward only. A migration that has shipped is never edited: write a new one.
 * docs/internals/store.md has the rules for migrations while nodes of two versions run.
 */

import foundation from "./0001-foundation.sql" with { type: "text" };
import limits from "./0002-limits.sql" with { type: "text" };
import money from "./0003-money.sql" with { type: "text" };
import sockets from "./0004-sockets.sql" with { type: "text" };
import identity from "./0005-identity.sql" with { type: "text" };
import groupAccess from "./0006-group-access.sql" with { type: "text" };
import operation from "./0007-operation.sql" with { type: "text" };
import keyCeilings from "./0008-key-ceilings.sql" with { type: "text" };
import indexes from "./0009-indexes.sql" with { type: "text" };
import leases from "./0010-leases.sql" with { type: "text" };
import sharedCharges from "./0011-shared-charges.sql" with { type: "text" };
import shortIndexes from "./0012-short-indexes.sql" with { type: "text" };
import entriesByHand from "./0013-entries-by-hand.sql" with { type: "text" };
import shortRows from "./0014-short-rows.sql" with { type: "text" };
import debt from "./0015-debt.sql" with { type: "text" };
import onDisconnect from "./0016-on-disconnect.sql" with { type: "text" };
import tokenScopes from "./0017-token-scopes.sql" with { type: "text" };
import moneyOrders from "./0018-money-orders.sql" with { type: "text" };
import processIdentity from "./0019-process-identity.sql" with { type: "text" };
import requestCount from "./0020-request-count.sql" with { type: "text" };
import oldestReader from "./0021-oldest-reader.sql" with { type: "text" };
import nodes from "./0022-nodes.sql" with { type: "text" };
import tracePropagation from "./0023-trace-propagation.sql" with { type: "text" };
import sharedFacts from "./0024-shared-facts.sql" with { type: "text" };
import costHeaders from "./0025-cost-headers.sql" with { type: "text" };
import messagesUsage from "./0026-messages-usage.sql" with { type: "text" };
import vendorPresets from "./0027-vendor-presets.sql" with { type: "text" };
import coordination from "./0028-coordination.sql" with { type: "text" };
import reservationFences from "./0029-reservation-fences.sql" with { type: "text" };
import captures from "./0030-captures.sql" with { type: "text" };
import usageExport from "./0031-usage-export.sql" with { type: "text" };
import storedResponses from "./0032-stored-responses.sql" with { type: "text" };
import regions from "./0033-regions.sql" with { type: "text" };
import nodeUse from "./0034-node-use.sql" with { type: "text" };

export interface Migration {
  version: number;
  name: string;
  sql: string;
  /** Omitted: `expand`. */
  phase?: MigrationPhase;
}

export type MigrationPhase =
  /** Only adds. Programs of the earlier version run on while it is applied and afterwards. */
  | { readonly kind: "expand" }
  /**
   * Removes what programs older than `oldestReader` (the schema that they know) still use. On a shared database it
   * waits until every running process knows that schema. Afterwards older programs do not start.
   */
  | { readonly kind: "contract"; readonly oldestReader: number }
  /** Rewrites large tables. All other nodes must be stopped. */
  | {
      readonly kind: "offline";
      /** Existing tables that must not be written to meanwhile. On SQLite no table can be written to anyway. */
      readonly locks: readonly string[];
      /** What operators of a large store should know before the migration begins. */
      readonly takes?: string;
    };

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: "foundation", sql: foundation },
  { version: 2, name: "limits", sql: limits },
  { version: 3, name: "money", sql: money },
  { version: 4, name: "sockets", sql: sockets },
  { version: 5, name: "identity", sql: identity },
  { version: 6, name: "group-access", sql: groupAccess },
  { version: 7, name: "operation", sql: operation },
  { version: 8, name: "key-ceilings", sql: keyCeilings },
  { version: 9, name: "indexes", sql: indexes },
  { version: 10, name: "leases", sql: leases },
  { version: 11, name: "shared-charges", sql: sharedCharges },
  { version: 12, name: "short-indexes", sql: shortIndexes },
  { version: 13, name: "entries-by-hand", sql: entriesByHand },
  {
    version: 14,
    name: "short-rows",
    sql: shortRows,
    phase: {
      kind: "offline",
      locks: ["usage"],
      takes: "Request rows are rewritten, which takes ten to thirty seconds per million rows.",
    },
  },
  { version: 15, name: "debt", sql: debt, phase: { kind: "offline", locks: ["wallet"] } },
  { version: 16, name: "on-disconnect", sql: onDisconnect },
  { version: 17, name: "token-scopes", sql: tokenScopes },
  { version: 18, name: "money-orders", sql: moneyOrders },
  { version: 19, name: "process-identity", sql: processIdentity },
  { version: 20, name: "request-count", sql: requestCount },
  { version: 21, name: "oldest-reader", sql: oldestReader },
  { version: 22, name: "nodes", sql: nodes },
  { version: 23, name: "trace-propagation", sql: tracePropagation },
  { version: 24, name: "shared-facts", sql: sharedFacts },
  { version: 25, name: "cost-headers", sql: costHeaders },
  { version: 26, name: "messages-usage", sql: messagesUsage },
  { version: 27, name: "vendor-presets", sql: vendorPresets },
  { version: 28, name: "coordination", sql: coordination },
  { version: 29, name: "reservation-fences", sql: reservationFences },
  { version: 30, name: "captures", sql: captures },
  { version: 31, name: "usage-export", sql: usageExport },
  { version: 32, name: "stored-responses", sql: storedResponses },
  { version: 33, name: "regions", sql: regions },
  { version: 34, name: "node-use", sql: nodeUse },
];

/** The schema that this program knows. */
export const SCHEMA_KNOWN = MIGRATIONS.at(-1)?.version ?? 0;
