/** What the kind, the vendor and the region of an account decide if its configuration leaves it out. */

import { type AccountKind, DEFAULT_INTERFACES } from "../records/account.ts";
import type { Interface } from "../records/interfaces.ts";
import {
  DEFAULT_BASE_URLS,
  isRegional,
  regionalBaseUrl,
  VENDOR_PRESETS,
  VERTEX_REGION_DEFAULT,
  type Vendor,
} from "../vendors.ts";

interface AccountOrigin {
  readonly kind: AccountKind;
  readonly vendor?: Vendor | null | undefined;
  readonly region?: string | null | undefined;
}

export function defaultBaseUrl(origin: AccountOrigin): string {
  const { kind, vendor } = origin;
  const region = defaultRegion(origin);
  if (isRegional(kind)) return region === null ? "" : regionalBaseUrl(kind, region);
  return vendor ? VENDOR_PRESETS[vendor].baseUrl : (DEFAULT_BASE_URLS[kind] ?? "");
}

export function defaultRegion({ kind, region }: AccountOrigin): string | null {
  return region ?? (kind === "vertex" ? VERTEX_REGION_DEFAULT : null);
}

export function defaultInterfaces({ kind, vendor }: AccountOrigin): readonly Interface[] {
  return vendor ? VENDOR_PRESETS[vendor].interfaces : DEFAULT_INTERFACES[kind];
}
