/**
 * The schema migrations, in order, forward only. A migration that has shipped is never edited: write a new one.
 * docs/internals/store.md has the rules for migrations while nodes of two versions run.
 */

import baseline from "./0001-baseline.sql" with { type: "text" };
import requestPolicies from "./0002-request-policies.sql" with { type: "text" };
import auditor from "./0003-auditor.sql" with { type: "text" };
import serviceAccounts from "./0004-service-accounts.sql" with { type: "text" };
import temporarySecrets from "./0005-temporary-secrets.sql" with { type: "text" };
import webSearches from "./0006-web-searches.sql" with { type: "text" };
import companySignIn from "./0007-company-sign-in.sql" with { type: "text" };
import limitCoordinator from "./0008-limit-coordinator.sql" with { type: "text" };
import laterAlertRules from "./0009-later-alert-rules.sql" with { type: "text" };
import scim from "./0010-scim.sql" with { type: "text" };
import toolSignIn from "./0011-tool-sign-in.sql" with { type: "text" };
import fallback from "./0012-fallback.sql" with { type: "text" };
import windowClock from "./0013-window-clock.sql" with { type: "text" };
import adoptedHolds from "./0014-adopted-holds.sql" with { type: "text" };

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
  { version: 1, name: "baseline", sql: baseline },
  { version: 2, name: "request-policies", sql: requestPolicies },
  { version: 3, name: "auditor", sql: auditor },
  { version: 4, name: "service-accounts", sql: serviceAccounts },
  { version: 5, name: "temporary-secrets", sql: temporarySecrets },
  { version: 6, name: "web-searches", sql: webSearches },
  { version: 7, name: "company-sign-in", sql: companySignIn },
  { version: 8, name: "limit-coordinator", sql: limitCoordinator },
  { version: 9, name: "later-alert-rules", sql: laterAlertRules },
  { version: 10, name: "scim", sql: scim },
  { version: 11, name: "tool-sign-in", sql: toolSignIn },
  { version: 12, name: "fallback", sql: fallback },
  { version: 13, name: "window-clock", sql: windowClock },
  { version: 14, name: "adopted-holds", sql: adoptedHolds },
];

export const SCHEMA_KNOWN = MIGRATIONS.at(-1)?.version ?? 0;
