/** Checks of `doctor` for sign-in at providers: address of the gateway, issuer, clock, and a local administrator. */

import { systemClock } from "../base/clock.ts";
import type { Settings } from "../config/installation/environment.ts";
import { limits } from "../config/limits/product-limits.ts";
import { openProviderFetch } from "../openid/provider-fetch.ts";
import { Providers, SignInFailure } from "../openid/providers.ts";
import type { ProviderRecord } from "../records/sign-in.ts";
import type { Keyring } from "../secrets/keyring.ts";
import type { Db } from "../store/engine/db.ts";
import { canAdministratorSignIn } from "../store/identity/users.ts";
import { readSignIn } from "../store/settings/sections.ts";
import type { CheckConnections } from "./check-account.ts";
import { type Finding, failed, passed, warned } from "./finding.ts";

interface SignInChecks {
  db: Db;
  keyring: Keyring;
  settings: Pick<Settings, "publicUrl">;
  connections: Pick<CheckConnections, "dialer" | "http">;
}

const WHAT = "sign-in";

export async function checkSignIn({ db, keyring, settings, connections }: SignInChecks): Promise<Finding[]> {
  const { password, providers } = await readSignIn(db);
  if (providers.length === 0) return [];
  const options = { ...limits.companySignIn, ...connections, keyring, clock: systemClock };
  const client = new Providers(options);
  const checked = await Promise.all(
    providers.map(async (provider) => {
      try {
        await client.check(provider);
        return [describeProvider(provider, settings.publicUrl), ...(await checkClock(provider, options))];
      } catch (error) {
        if (!(error instanceof SignInFailure)) throw error;
        return [describeFailure(provider, error)];
      }
    }),
  );
  return [
    ...checkAddress(settings.publicUrl),
    ...checked.flat(),
    ...(password === "allowed" || (await canAdministratorSignIn(db)) ? [] : [NO_LOCAL_ADMINISTRATOR]),
  ];
}

function checkAddress(publicUrl: string): Finding[] {
  const { protocol, hostname } = new URL(publicUrl);
  if (protocol === "https:") return [];
  const isLocal = hostname === "localhost" || hostname === "127.0.0.1";
  const message = `server.public_url is ${publicUrl}, so ${isLocal ? "only browsers on this machine" : "no browser"} can sign in at a provider`;
  const todo = "Set server.public_url (PUBLIC_URL) to the https address of the gateway.";
  return [isLocal ? warned(WHAT, message, todo) : failed(WHAT, message, todo)];
}

function describeProvider({ name, issuer }: ProviderRecord, publicUrl: string): Finding {
  return passed(`${WHAT} ${name}`, `${issuer} responds. Redirect URI: ${publicUrl}/console/sign-in/callback`);
}

function describeFailure({ name }: ProviderRecord, { kind, message }: SignInFailure): Finding {
  const todo =
    kind === "unavailable"
      ? "Check the address of the issuer, and that this machine reaches it."
      : "Set issuer exactly as the provider shows it.";
  return failed(`${WHAT} ${name}`, message, todo);
}

/** A token counts as expired or not valid yet if the clocks differ by more. */
const CLOCK_DIFFERENCE_MS_MAX = 30_000;

/** Compares the clock with the header `Date` of the provider. */
async function checkClock(
  { name, issuer, privateNetwork }: ProviderRecord,
  options: Parameters<typeof openProviderFetch>[0],
): Promise<Finding[]> {
  const fetchChecked = openProviderFetch(options, { privateNetwork });
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const response = await fetchChecked(url, { method: "GET", headers: { accept: "application/json" } });
  const theirsMs = Date.parse(response.headers.get("date") ?? "");
  const differenceMs = Math.abs(theirsMs - systemClock.nowMs());
  if (!(differenceMs > CLOCK_DIFFERENCE_MS_MAX)) return [];
  return [
    warned(
      `${WHAT} ${name}`,
      `the clocks of this machine and of the provider differ by ${Math.round(differenceMs / 1000)} seconds`,
      "Synchronize the clock of this machine, for example with chrony.",
    ),
  ];
}

const NO_LOCAL_ADMINISTRATOR = warned(
  WHAT,
  "no administrator can sign in with a password while the provider is down",
  "Create an administrator with a password who is not linked to a provider.",
);
