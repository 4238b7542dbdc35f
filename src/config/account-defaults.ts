/** What the kind and the vendor of an account decide if its configuration leaves it out. */

import { type AccountKind, DEFAULT_INTERFACES, type Interface } from "../records.ts";
import { DEFAULT_BASE_URLS, VENDOR_PRESETS, type Vendor } from "../vendors.ts";

interface AccountOrigin {
  readonly kind: AccountKind;
  readonly vendor?: Vendor | null | undefined;
}

export function defaultBaseUrl({ kind, vendor }: AccountOrigin): string {
  return vendor ? VENDOR_PRESETS[vendor].baseUrl : (DEFAULT_BASE_URLS[kind] ?? "");
}

export function defaultInterfaces({ kind, vendor }: AccountOrigin): readonly Interface[] {
  return vendor ? VENDOR_PRESETS[vendor].interfaces : DEFAULT_INTERFACES[kind];
}
