/** What the kind, the vendor and the region of an account decide if its configuration leaves it out. */

import { KINDS } from "../accounts/kinds/table.ts";
import { VENDOR_PRESETS, type Vendor } from "../accounts/vendors.ts";
import type { AccountKind } from "../records/account.ts";
import type { Interface } from "../records/interfaces.ts";

interface AccountOrigin {
  readonly kind: AccountKind;
  readonly vendor?: Vendor | null | undefined;
  readonly region?: string | null | undefined;
}

/** Empty if the kind has no default. */
export function defaultBaseUrl(origin: AccountOrigin): string {
  if (origin.vendor) return VENDOR_PRESETS[origin.vendor].baseUrl;
  const { address } = KINDS[origin.kind];
  if (address.from === "kind") return address.baseUrl;
  const region = defaultRegion(origin);
  return address.from === "region" && region !== null ? address.baseUrl(region) : "";
}

export function defaultRegion({ kind, region }: AccountOrigin): string | null {
  const { address } = KINDS[kind];
  return region ?? (address.from === "region" ? address.regionDefault : null);
}

export function defaultInterfaces({ kind, vendor }: AccountOrigin): readonly Interface[] {
  return vendor ? VENDOR_PRESETS[vendor].interfaces : KINDS[kind].interfaces;
}
