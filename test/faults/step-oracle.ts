/**
 * Which step of a request may have served it, who had to pay for it, and how many searches it may be charged: by the
 * configuration, the client's own limit and the simulator's ledger, without the gateway's code.
 */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import type { ClientRecord } from "./client.ts";
import { accountsOfGroup, listAccounts, type Setup } from "./setup.ts";

/** Of a group without a bound, and of a request that no group pays for. */
const SEARCHES_MAX = 10;
const UNPAID_SEARCHES_MAX = 1_000;

interface GroupTerms {
  /** Null where requests are not charged. */
  readonly payer: string | null;
  readonly searchesMax: number;
  /** Public model → the upstream models of the group's accounts. */
  readonly upstreamModels: ReadonlyMap<string, ReadonlySet<string>>;
}

/** What is known of the request of a row. */
export interface ServedRequest {
  readonly row: UsageRow;
  readonly groupName: string | undefined;
  readonly entry: LedgerEntry;
  readonly client: ClientRecord | undefined;
}

export class StepOracle {
  readonly #groups: ReadonlyMap<string, GroupTerms>;

  constructor(setup: Setup) {
    this.#groups = new Map(
      setup.groups.map((group) => [
        group.name,
        {
          payer: group.billing === undefined || group.billing.charge === "none" ? null : group.billing.charge,
          searchesMax: group.web_searches_max ?? SEARCHES_MAX,
          upstreamModels: listUpstreamModels(setup, accountsOfGroup(setup, group)),
        },
      ]),
    );
  }

  /** Why the group, model or payer of the row are not those of the step that served; null if they are. */
  findWrongStep({ row, groupName, entry, client }: ServedRequest): string | null {
    if (row.outcome !== "completed" && row.chargedNano === 0n) return null;
    const terms = this.#groups.get(groupName ?? "");
    if (terms === undefined) return `unknown group ${groupName}`;
    if (!terms.upstreamModels.get(row.publicModel)?.has(entry.model))
      return `${groupName} ${row.publicModel}, and ${entry.model} served`;
    if (row.usageSource !== "none" && row.payer !== terms.payer)
      return `${groupName} is paid by ${terms.payer}, not ${row.payer}`;
    if (client?.status !== 200) return null;
    const namedGroup = client.headers?.get("x-gateway-group") ?? groupName;
    if (namedGroup !== groupName) return `${groupName}, and the header names ${namedGroup}`;
    const step = row.fallbackStep ?? 0;
    const namedStep = Number(client.headers?.get("x-gateway-step") ?? step);
    return namedStep === step ? null : `step ${step}, and the header names ${namedStep}`;
  }

  /** Why the searches of the row are not those that were made and paid for; null if they are. */
  findWrongSearches({ row, groupName, entry, client }: ServedRequest): string | null {
    if (client === undefined) return null;
    const made = client.search === null ? 0 : Number(/searches=(\d+)/.exec(entry.model)?.[1] ?? 0);
    const ofGroup =
      row.payer === null ? UNPAID_SEARCHES_MAX : (this.#groups.get(groupName ?? "")?.searchesMax ?? 0);
    const charged = Math.min(made, client.search?.max ?? ofGroup);
    if (row.webSearches > charged) return `${row.webSearches} searches, at most ${charged}`;
    const isWhole = row.outcome === "completed" && !row.flags.includes("capped");
    return isWhole && row.webSearches < charged ? `${row.webSearches} searches, not ${charged}` : null;
  }
}

function listUpstreamModels(setup: Setup, names: readonly string[]): Map<string, Set<string>> {
  const upstreamModels = new Map<string, Set<string>>();
  for (const { name, models } of listAccounts(setup)) {
    if (!names.includes(name)) continue;
    for (const [publicModel, upstreamModel] of Object.entries(models)) {
      const known = upstreamModels.get(publicModel) ?? new Set();
      upstreamModels.set(publicModel, known.add(upstreamModel));
    }
  }
  return upstreamModels;
}
