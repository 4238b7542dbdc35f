/** What the form of an account offers: the kinds of accounts, and the vendors that have a preset. */

import { z } from "zod";
import { ADDRESS_SOURCES, CREDENTIAL_FORMS, KIND_FIELDS } from "../../accounts/kinds/kind-definition.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import { VENDOR_PRESETS, VENDORS } from "../../accounts/vendors.ts";
import { ACCOUNT_KINDS } from "../../records/account.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { forAdmins } from "../http/route.ts";

const interfaces = z.array(z.enum(INTERFACES));

const kindObject = z.object({
  name: z.enum(ACCOUNT_KINDS),
  /** What decides the address of an account without a base URL. */
  address: z.enum(ADDRESS_SOURCES),
  /** The initial values of a new account; empty if there are none. */
  base_url: z.string(),
  region: z.string(),
  interfaces,
  /** The fields that not every kind has. */
  fields: z.array(z.enum(KIND_FIELDS)),
  credential: z.enum(CREDENTIAL_FORMS),
});

export const adminVendorRoutes = {
  "admin.vendors.list": forAdmins({
    method: "GET",
    path: "/api/admin/vendors",
    summary: "List the kinds of accounts, and the vendors of OpenAI-compatible APIs that have a preset",
    response: z.object({
      kinds: z.array(kindObject),
      data: z.array(
        z.object({
          vendor: z.enum(VENDORS),
          label: z.string(),
          base_url: z.string(),
          interfaces,
          /** Its address is usually private, which only the configuration file can allow. */
          is_local: z.boolean(),
        }),
      ),
    }),
    async run() {
      return {
        kinds: listKinds(),
        data: VENDORS.map((vendor) => {
          const { label, baseUrl, interfaces, isLocal } = VENDOR_PRESETS[vendor];
          return { vendor, label, base_url: baseUrl, interfaces: [...interfaces], is_local: isLocal };
        }),
      };
    },
  }),
};

/** The kind of a new account comes first. */
export function listKinds(): z.output<typeof kindObject>[] {
  return ACCOUNT_KINDS.map((name) => {
    const { address, interfaces, fields, credential } = KINDS[name];
    return {
      name,
      address: address.from,
      base_url:
        address.from === "configuration" ? address.suggested : address.from === "kind" ? address.baseUrl : "",
      region: address.from === "region" ? address.regionSuggested : "",
      interfaces: [...interfaces],
      fields: [...fields],
      credential,
    };
  });
}
