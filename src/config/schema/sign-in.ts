/** Schema of sign-in: passwords, and OpenID Connect providers. */

import { z } from "zod";
import { ADDRESS_TRUST, PASSWORD_SIGN_IN, USER_CREATION } from "../../records/sign-in.ts";
import { limits } from "../limits/product-limits.ts";
import { describeFields, isHttpUrl, name, text } from "./basic-values.ts";
import { durationMs, durationText } from "./usage-limits.ts";
import { PRIVATE_NETWORK } from "./webhooks.ts";

const { claimValueCharsMax, mappedValuesMax, providersMax, signInEveryMsMin } = limits.companySignIn;

/** Compared exactly with the issuer of tokens, so the value is not changed. */
const issuer = text(
  "the address of the issuer as the provider shows it, like https://login.example.com, without a query",
  (value) => value.length <= 512 && isHttpUrl(value),
);

export const providerName = text("a name of 1 to 40 letters, digits, hyphens and underscores", (value) =>
  /^[A-Za-z0-9_-]{1,40}$/.test(value),
);

const visible = (rule: string, charsMax: number) =>
  text(`${rule} of 1 to ${charsMax} characters`, (value) => {
    return value.length >= 1 && value.length <= charsMax && !/\p{C}/u.test(value);
  });

const claimName = text(
  "the name of a claim, like groups or resource_access.gateway.roles",
  (value) => value.length <= 256 && /^[\w:/-]+(\.[\w:/-]+)*$/.test(value),
);

const claimValues = z
  .array(visible("a value", claimValueCharsMax))
  .max(mappedValuesMax, { error: `a list of at most ${mappedValuesMax}` });

export const domain = text(
  "a domain like example.com",
  (value) =>
    value.length <= 253 && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/i.test(value),
).transform((value) => value.toLowerCase());

const signInEvery = text(
  `a duration like 30d, at least ${durationText(signInEveryMsMin)}, or off`,
  (value) => value === "off" || (durationMs(value) ?? 0) >= signInEveryMsMin,
).transform((value) => (value === "off" ? null : durationMs(value)));

const roles = describeFields({
  admin: { is: claimValues.default(() => []), means: "values that grant the role `admin`" },
  auditor: { is: claimValues.default(() => []), means: "values that grant the role `auditor`" },
});

const provider = describeFields({
  name: { is: providerName, means: "the name on the button of the sign-in page", also: "unique" },
  issuer: {
    is: issuer,
    means: "the issuer. The gateway reads `/.well-known/openid-configuration` below it",
    also: "`https`; `http` only with `private_network`",
  },
  client_id: { is: visible("a client id", 256), means: "the id of the gateway at the provider" },
  client_secret: {
    is: visible("a secret", 1024).optional(),
    means: "the secret of the gateway at the provider, stored encrypted",
    leftOut:
      "the current secret is kept if issuer and client id are unchanged; otherwise none, for a public client",
  },
  private_network: PRIVATE_NETWORK,
  subject_claim: {
    is: claimName.default("sub"),
    means:
      "the claim that identifies a person forever. Entra: `oid`, because its `sub` differs for each application",
  },
  groups_claim: {
    is: claimName.default("groups"),
    means: "the claim with groups or roles, a dotted path. Entra's app roles: `roles`",
  },
  address: {
    is: z.enum(ADDRESS_TRUST).default("verified"),
    means:
      "`verified`: people need the claim `email_verified`. `trusted`: for providers that do not send it (Entra); only if people cannot choose their address there",
  },
  create_users: {
    is: z.enum(USER_CREATION).default("on_sign_in"),
    means:
      "`on_sign_in`: the first sign-in creates the user. `invited`: only with an open invitation to the address. `scim`: only people whom the directory pushes, see [`scim`](#scim)",
  },
  domains: {
    is: z
      .array(domain)
      .max(100, { error: "a list of at most 100" })
      .default(() => []),
    means: "domains of the addresses that may sign in",
    leftOut: "all",
  },
  require_group: {
    is: claimValues.default(() => []),
    means: "values of the claim, one of which a person needs to sign in",
    leftOut: "none is needed",
  },
  roles: {
    is: roles.default(() => ({ admin: [], auditor: [] })),
    means: "the roles that values of the claim grant",
    leftOut: "none",
  },
  groups: {
    is: z.record(name, claimValues).default(() => ({})),
    means: "by the name of a group here: the values of the claim that make a person its member",
    leftOut: "none",
    also: "names of `groups`",
  },
  sign_in_every: {
    is: signInEvery.prefault("off"),
    means:
      "suspends the keys, and ends sessions and tokens, of people who have not signed in for this long, a [duration](#durations)",
  },
}).refine(({ issuer: address, private_network }) => private_network || !/^http:/i.test(address), {
  error: "an https:// address, because private_network is not set",
  path: ["issuer"],
});

export const signIn = describeFields({
  password: {
    is: z.enum(PASSWORD_SIGN_IN).default("allowed"),
    means:
      "who may sign in with a password. `admins`: only administrators, for emergencies. `off`: no one; the command line still creates sign-in links. People who sign in at a provider have no password here",
  },
  providers: {
    is: z
      .array(provider)
      .max(providersMax, { error: `a list of at most ${providersMax}` })
      .refine((list) => new Set(list.map((one) => one.name)).size === list.length, {
        error: "a list with unique names",
      })
      .default(() => []),
    means: "OpenID Connect providers, in the order of the sign-in page",
    leftOut: "none",
  },
}).refine(({ password, providers }) => password === "allowed" || providers.length > 0, {
  error: "allowed, because no provider is set",
  path: ["password"],
});
