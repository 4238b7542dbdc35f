/** Schema of SCIM: the directory that pushes people and groups. */

import { z } from "zod";
import { GROUP_SOURCES } from "../../records/settings.ts";
import { describeFields } from "./basic-values.ts";
import { domain, providerName } from "./sign-in.ts";

export const scim = describeFields({
  enabled: { is: z.boolean().default(true), means: "`false`: pushes are rejected. What was pushed stays" },
  provider: {
    is: providerName.optional(),
    means:
      "the provider of `sign_in` whose directory pushes. The `externalId` of a person is the value of its `subject_claim`",
    leftOut: "required, unless `enabled` is `false`",
  },
  adopt_domains: {
    is: z
      .array(domain)
      .max(100, { error: "a list of at most 100" })
      .default(() => []),
    means:
      "domains of addresses. A pushed person with the address of a local user here becomes this user; otherwise the push is rejected. Administrators and auditors never",
    leftOut: "none",
  },
  groups: {
    is: z.enum(GROUP_SOURCES).default("pushed"),
    means:
      "where the values of `require_group`, `roles` and `groups` of the provider come from for pushed people. `pushed`: the names of pushed groups. `claims`: the claims of their sign-ins, as for everyone else",
  },
}).refine(({ enabled, provider }) => !enabled || provider !== undefined, {
  error: "the name of a provider of sign_in",
  path: ["provider"],
});
