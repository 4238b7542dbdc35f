/** OpenID Connect: authorization code flow with PKCE, state and nonce. ID tokens are verified. */

import { createHash } from "node:crypto";
import type { Configuration } from "openid-client";
import type { Clock } from "../base/clock.ts";
import type { ProviderRecord } from "../records/sign-in.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { providerSecretBinding, unseal } from "../secrets/seal.ts";
import { type Claims, needsUserinfo, type ReadPerson, readPerson, readSubject } from "./claims.ts";
import { openProviderFetch, type ProviderConnections, ProviderUnreachable } from "./provider-fetch.ts";

/** A sign-in that failed. `reason` is for administrators and the log: it names no token and no secret. */
export class SignInFailure extends Error {
  override readonly name = "SignInFailure";
  readonly kind: "unavailable" | "rejected";
  constructor(kind: "unavailable" | "rejected", reason: string) {
    super(reason);
    this.kind = kind;
  }
}

/** The secrets of one sign-in, which only the browser has, sealed. */
interface FlowSecrets {
  state: string;
  nonce: string;
  codeVerifier: string;
  /** For a confirmation: the person must have signed in at the provider within this time. */
  maxAgeSeconds: number | null;
}

interface CallbackFlow extends FlowSecrets {
  /** Names of groups that the directory has pushed for a person; null if claims decide. */
  readPushedGroups(issuer: string, subject: string): Promise<readonly string[] | null>;
}

interface ProvidersOptions extends ProviderConnections {
  readonly keyring: Keyring;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly discoveryMs: number;
  readonly discoveryRetryMs: number;
  readonly exchangesMax: number;
}

interface Discovery {
  configuration: Promise<Configuration>;
  startedMs: number;
  /** Undefined while it runs. */
  isUsable: boolean | undefined;
}

/** Seconds by which the clocks of provider and gateway may differ. */
const CLOCK_TOLERANCE_SECONDS = 60;
const REASON_CHARS_MAX = 300;

export class Providers {
  readonly #options: ProvidersOptions;
  /** By the settings of the provider that it depends on. */
  readonly #discoveries = new Map<string, Discovery>();
  #exchanges = 0;

  constructor(options: ProvidersOptions) {
    this.#options = options;
  }

  /** The address at the provider to which the browser goes. */
  async buildAuthorizationUrl(
    provider: ProviderRecord,
    redirectUri: string,
    { state, nonce, codeVerifier, maxAgeSeconds }: FlowSecrets,
  ): Promise<string> {
    return this.#run(async () => {
      const { buildAuthorizationUrl } = await import("openid-client");
      const configuration = await this.#discover(provider);
      const offered = configuration.serverMetadata().scopes_supported ?? [];
      return buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: offered.includes("groups") ? "openid email profile groups" : "openid email profile",
        response_mode: "query",
        code_challenge: createHash("sha256").update(codeVerifier).digest("base64url"),
        code_challenge_method: "S256",
        state,
        nonce,
        ...(maxAgeSeconds === null ? {} : { max_age: String(maxAgeSeconds) }),
      }).href;
    });
  }

  /** Exchanges the code in the query of `callback` for an ID token, verifies it, and reads the person. */
  async readPerson(provider: ProviderRecord, callback: URL, flow: CallbackFlow): Promise<ReadPerson> {
    return this.#run(async () => {
      const { authorizationCodeGrant, fetchUserInfo } = await import("openid-client");
      const configuration = await this.#discover(provider);
      const tokens = await authorizationCodeGrant(configuration, callback, {
        expectedState: flow.state,
        expectedNonce: flow.nonce,
        pkceCodeVerifier: flow.codeVerifier,
        idTokenExpected: true,
        ...(flow.maxAgeSeconds === null ? {} : { maxAge: flow.maxAgeSeconds }),
      });
      const claims = tokens.claims();
      if (claims === undefined) throw new SignInFailure("rejected", "the response has no ID token");
      const hasUserinfo = configuration.serverMetadata().userinfo_endpoint !== undefined;
      const userinfo: Claims =
        hasUserinfo && needsUserinfo(provider, claims)
          ? await fetchUserInfo(configuration, tokens.access_token, claims.sub)
          : {};
      const subject = readSubject(provider, claims);
      const pushedGroups = subject === null ? null : await flow.readPushedGroups(claims.iss, subject);
      return readPerson(provider, claims, { userinfo, pushedGroups });
    });
  }

  /** Reads the provider's addresses again. Throws a `SignInFailure` if the provider cannot be used. */
  async check(provider: ProviderRecord): Promise<void> {
    this.#discoveries.delete(discoveryKey(provider));
    await this.#run(() => this.#discover(provider));
  }

  async #run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#exchanges >= this.#options.exchangesMax)
      throw new SignInFailure("unavailable", "too many sign-ins at the same time");
    this.#exchanges += 1;
    try {
      return await work();
    } catch (error) {
      throw asFailure(error);
    } finally {
      this.#exchanges -= 1;
    }
  }

  /** Single-flight. A failure is remembered for a moment, so that a provider that is down is not called for each click. */
  #discover(provider: ProviderRecord): Promise<Configuration> {
    const key = discoveryKey(provider);
    const nowMs = this.#options.clock.monotonicMs();
    const known = this.#discoveries.get(key);
    const keptMs = known?.isUsable === false ? this.#options.discoveryRetryMs : this.#options.discoveryMs;
    if (known !== undefined && nowMs - known.startedMs < keptMs) return known.configuration;
    for (const [name, { startedMs }] of this.#discoveries)
      if (nowMs - startedMs >= this.#options.discoveryMs) this.#discoveries.delete(name);
    const discovery: Discovery = {
      configuration: this.#readConfiguration(provider),
      startedMs: nowMs,
      isUsable: undefined,
    };
    this.#discoveries.set(key, discovery);
    discovery.configuration.then(
      () => {
        discovery.isUsable = true;
      },
      () => {
        discovery.isUsable = false;
      },
    );
    return discovery.configuration;
  }

  async #readConfiguration(provider: ProviderRecord): Promise<Configuration> {
    const openid = await import("openid-client");
    const { keyring } = this.#options;
    const { name, issuer, clientId, sealedSecret, privateNetwork } = provider;
    const secret = sealedSecret === null ? null : unseal(keyring, providerSecretBinding(name), sealedSecret);
    const fetchChecked = openProviderFetch(this.#options, { privateNetwork });
    const execute = privateNetwork ? [openid.allowInsecureRequests] : [];
    const found = await openid.discovery(new URL(issuer), clientId, undefined, undefined, {
      execute,
      [openid.customFetch]: fetchChecked,
    });
    const server = found.serverMetadata();
    const takesBasic = server.token_endpoint_auth_methods_supported?.includes("client_secret_basic") ?? true;
    const authentication =
      secret === null
        ? openid.None()
        : takesBasic
          ? openid.ClientSecretBasic(secret)
          : openid.ClientSecretPost(secret);
    const configuration = new openid.Configuration(
      server,
      clientId,
      { [openid.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
      authentication,
    );
    configuration[openid.customFetch] = fetchChecked;
    for (const change of execute) change(configuration);
    // Without it the library trusts the connection and accepts an ID token with any signature.
    openid.enableNonRepudiationChecks(configuration);
    return configuration;
  }
}

function discoveryKey({ name, issuer, clientId, sealedSecret, privateNetwork }: ProviderRecord): string {
  return JSON.stringify([name, issuer, clientId, sealedSecret, privateNetwork]);
}

/** The library wraps errors of `fetch`, and names what it rejected in nested causes. */
function asFailure(error: unknown): SignInFailure {
  if (error instanceof SignInFailure) return error;
  const chain = listCauses(error);
  const unreachable = chain.find((one) => one instanceof ProviderUnreachable);
  if (unreachable !== undefined) return new SignInFailure("unavailable", unreachable.message);
  const texts = chain.map((one) =>
    "error" in one && typeof one.error === "string" ? `${one.message} (${one.error})` : one.message,
  );
  const reason = [...new Set(texts)].join(": ").replace(/[\p{C}\s]+/gu, " ");
  return new SignInFailure("rejected", reason.slice(0, REASON_CHARS_MAX) || "the response is not valid");
}

const CAUSES_MAX = 5;

function listCauses(error: unknown): Error[] {
  const chain: Error[] = [];
  for (let one = error; one instanceof Error && chain.length < CAUSES_MAX; one = one.cause) chain.push(one);
  return chain;
}
