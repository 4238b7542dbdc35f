/** What another gateway has, in the terms of this one. Each source has a reader that fills it. */

import type { WindowInFile } from "../../config/schema/usage-limits.ts";
import type { Nano } from "../../money/nano.ts";
import type { Interface } from "../../records/interfaces.ts";
import { RATE_KINDS, type RateKind } from "../../records/limits.ts";
import type { Price } from "../../records/price.ts";

export const SOURCES = ["litellm", "new-api", "one-api", "sub2api"] as const;
export type SourceName = (typeof SOURCES)[number];

/** Limits in file shape. */
export interface ImportedLimits extends Partial<Record<RateKind, number>> {
  windows?: WindowInFile[];
}

interface ImportedModel {
  readonly id: string;
  readonly price?: Price;
}

/** An account in file shape. */
export interface ImportedAccount {
  readonly name: string;
  readonly kind: string;
  readonly vendor?: string;
  readonly base_url?: string;
  readonly credential?: string;
  readonly region?: string;
  readonly api_version?: string;
  readonly interfaces?: readonly Interface[];
  readonly enabled: boolean;
  readonly priority?: number;
  readonly weight?: number;
  readonly limits?: ImportedLimits;
  readonly models: Readonly<Record<string, string>>;
}

export interface ImportedGroup {
  readonly name: string;
  readonly models: readonly string[];
  readonly accounts: readonly string[];
  readonly billing?: { readonly charge: "balance"; readonly multiplier: string };
  /** Limits of all keys of the group together. */
  readonly group_limits?: ImportedLimits;
}

export interface ImportedUser {
  readonly email: string;
  readonly limits?: ImportedLimits;
  /** Groups in which the user may create keys. */
  readonly groups: readonly string[];
}

/** The whole secret, or its SHA-256 where the source has nothing else. */
export type SourceSecret = { readonly plain: string } | { readonly sha256Hex: string };

/** A secret that the source has replaced and still accepts. */
export interface SourceFormerSecret {
  readonly sha256Hex: string;
  readonly worksUntilMs: number;
}

export interface ImportedKey {
  /** For reports: `key 17 "laptop"`. */
  readonly title: string;
  readonly name: string;
  readonly user: string | null;
  readonly group: string;
  /** A part of the models of the group; null for all of them. */
  readonly models: readonly string[] | null;
  /** The networks that requests may come from; null for all. */
  readonly networks: readonly string[] | null;
  readonly secret: SourceSecret;
  /** Omitted: none. */
  readonly formerSecrets?: readonly SourceFormerSecret[];
  readonly expiresAtMs: number | null;
  readonly limits?: ImportedLimits;
}

export interface ImportedBalance {
  /** The user's id in the source, which makes the top-up idempotent. */
  readonly sourceId: string;
  readonly email: string;
  readonly amountNano: Nano;
}

/** What the requests of a month cost in the source. It is reported and not imported. */
export interface MonthlySpending {
  /** Such as `2026-11`. */
  readonly month: string;
  readonly amountNano: Nano;
}

/** Something that is not carried over, or not as it was. */
export interface ImportFinding {
  readonly subject: string;
  readonly message: string;
}

export interface Imported {
  readonly models: ImportedModel[];
  readonly accounts: ImportedAccount[];
  readonly groups: ImportedGroup[];
  readonly users: ImportedUser[];
  readonly keys: ImportedKey[];
  readonly balances: ImportedBalance[];
  readonly spending: MonthlySpending[];
  readonly findings: ImportFinding[];
}

export function createImported(): Imported {
  return {
    models: [],
    accounts: [],
    groups: [],
    users: [],
    keys: [],
    balances: [],
    spending: [],
    findings: [],
  };
}

export interface ImportOptions {
  /** Makes `name@domain` for users without an address. */
  readonly addressDomain: string | null;
  /** The group of keys without a team. */
  readonly group: string;
  /** LiteLLM only: its config.yaml, and the key that its stored credentials are encrypted with. */
  readonly litellm: { readonly config: unknown; readonly saltKey: string | null };
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly nowMs: number;
}

/** A name of this gateway: at most 64 characters, without control characters, and never half of a character. */
export function cleanName(text: string | null, fallback: string): string {
  const cleaned = cleanText(text ?? "").trim();
  return (cleaned === "" ? fallback : cleaned)
    .slice(0, 64)
    .replace(/\p{Cs}/u, "")
    .trim();
}

/** A text of the source for a report: control characters could change what a terminal shows. */
export function cleanText(text: string): string {
  return text.replace(/\p{C}/gu, " ");
}

/** The networks of a list of IP addresses; null if it has no entry. An empty entry is no network, and not ignored. */
export function readNetworks(entries: readonly string[]): string[] | null {
  return entries.length === 0 ? null : entries.map((entry) => entry.trim());
}

/** The stricter of two limits of each kind. */
export function combineLimits(a: ImportedLimits, b: ImportedLimits): ImportedLimits {
  const rates = Object.fromEntries(
    RATE_KINDS.flatMap((kind) => {
      const set = [a[kind], b[kind]].filter((limit) => limit !== undefined);
      return set.length === 0 ? [] : [[kind, Math.min(...set)]];
    }),
  );
  const windows = Map.groupBy([...(a.windows ?? []), ...(b.windows ?? [])], ({ per }) => per);
  const strictest = [...windows].map(([per, same]) => ({
    per,
    usd: same.map(({ usd = "" }) => usd).reduce((x, y) => (Number(x) <= Number(y) ? x : y)),
  }));
  return { ...rates, ...(strictest.length === 0 ? {} : { windows: strictest }) };
}
