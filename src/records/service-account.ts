/** A service account as it is stored: a program that calls the console API under its own name. */

/**
 * `wallet.read` reads wallets and ledgers, `wallet.top_up` tops up wallets within bounds, `config.apply` applies a file
 * that changes models, accounts, request policies, groups and plans. `keys.write` lets such a file also change keys. `scim`
 * pushes the people and groups of a directory.
 */
export const SERVICE_SCOPES = ["wallet.read", "wallet.top_up", "config.apply", "keys.write", "scim"] as const;
export type ServiceScope = (typeof SERVICE_SCOPES)[number];

/** What an account may top up, in nano-USD: in one call, and within a day in UTC. */
export interface TopUpBounds {
  readonly callNano: bigint;
  readonly dayNano: bigint;
}

export interface ServiceAccountRecord {
  id: string;
  /** Unique. */
  name: string;
  scopes: readonly ServiceScope[];
  /** Null without the scope `wallet.top_up`. */
  bounds: TopUpBounds | null;
  /** Its tokens are rejected from then on; null: never. */
  expiresAtMs: number | null;
  createdAtMs: number;
}
