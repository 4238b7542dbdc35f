/** The vendors whose presets the form of an account offers. */

import { z } from "zod";
import { VENDOR_PRESETS, VENDORS } from "../../accounts/vendors.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { EMPTY_INPUT, forAdmins } from "../http/route.ts";

export const adminVendorRoutes = {
  "admin.vendors.list": forAdmins({
    ...EMPTY_INPUT,
    method: "GET",
    path: "/api/admin/vendors",
    summary: "List the vendors of OpenAI-compatible APIs that have a preset",
    answer: z.object({
      data: z.array(
        z.object({
          vendor: z.enum(VENDORS),
          label: z.string(),
          base_url: z.string(),
          interfaces: z.array(z.enum(INTERFACES)),
          /** Its address is usually private, which only the configuration file can allow. */
          is_local: z.boolean(),
        }),
      ),
    }),
    async run() {
      return {
        data: VENDORS.map((vendor) => {
          const { label, baseUrl, interfaces, isLocal } = VENDOR_PRESETS[vendor];
          return { vendor, label, base_url: baseUrl, interfaces: [...interfaces], is_local: isLocal };
        }),
      };
    },
  }),
};
