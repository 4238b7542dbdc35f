/**
 * Access tokens of Google service accounts: requested when first needed, shared by all requests, and renewed before
 * they expire by one exchange at a time.
 */

import { Cache } from "../../base/cache.ts";
import type { Clock } from "../../base/clock.ts";
import { wholePart } from "../../base/parts.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import type { HttpClient } from "../../net/http-client/contract.ts";
import { DialError, type Dialer } from "../../net/http-client/dial.ts";
import { parseServiceAccount, type ServiceAccount, signAssertion } from "../../secrets/service-account.ts";
import type { PolicyAccount } from "../account.ts";
import { type FailureClass, type UpstreamFailure, upstreamFailure } from "../failure.ts";
import { sendSingleRequest } from "../single-request.ts";

interface AccessTokenOptions {
  readonly dialer: Dialer;
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly userAgent: string;
  readonly limits: AccessTokenLimits;
}

/** The fields are described in the limits of the product. */
interface AccessTokenLimits {
  readonly timeoutMs: number;
  readonly responseBytesMax: number;
  readonly renewBeforeMs: number;
  readonly expiryMarginMs: number;
  readonly renewalPauseMs: number;
}

/** No token could be obtained. */
export class AccessTokenError extends Error {
  readonly failure: UpstreamFailure;

  constructor(failure: UpstreamFailure) {
    super(failure.reason);
    this.name = "AccessTokenError";
    this.failure = failure;
  }
}

interface AccessToken {
  readonly text: string;
  readonly expiresAtMs: number;
}

/** The tokens of one credential at one address. */
interface TokenState {
  token: AccessToken | null;
  exchange: Promise<string> | null;
  /** Not before this time is a valid token renewed. */
  renewAtMs: number;
}

const EXPIRES_IN_SECONDS_MAX = 86_400;
const TOKEN = /^[\x21-\x7e]{1,8192}$/;

export class AccessTokens {
  readonly #options: AccessTokenOptions;
  readonly #states = new Cache<string, TokenState>({ name: "access tokens", entriesMax: 1_024 });

  constructor(options: AccessTokenOptions) {
    this.#options = options;
  }

  /** Rejects with an `AccessTokenError`. A valid token is returned at once. */
  get(account: PolicyAccount): string | Promise<string> {
    const state = this.#states.getOrCreate(stateKey(account), newState);
    const { clock, limits } = this.#options;
    const nowMs = clock.monotonicMs();
    const { token } = state;
    if (token === null || nowMs >= token.expiresAtMs - limits.expiryMarginMs)
      return this.#exchange(account, state);
    if (nowMs >= state.renewAtMs) this.#renew(account, state, nowMs);
    return token.text;
  }

  /** The upstream rejected this token: the next request obtains a new one. */
  discard(account: PolicyAccount, text: string): void {
    const state = this.#states.get(stateKey(account));
    if (state?.token?.text === text) state.token = null;
  }

  /** Requests continue with the valid token, whether or not the renewal succeeds. */
  #renew(account: PolicyAccount, state: TokenState, nowMs: number): void {
    state.renewAtMs = nowMs + this.#options.limits.renewalPauseMs;
    this.#exchange(account, state).catch(() => {});
  }

  #exchange(account: PolicyAccount, state: TokenState): Promise<string> {
    state.exchange ??= this.#request(account)
      .then((token) => {
        state.token = token;
        state.renewAtMs = token.expiresAtMs - this.#options.limits.renewBeforeMs;
        return token.text;
      })
      .finally(() => {
        state.exchange = null;
      });
    return state.exchange;
  }

  async #request(account: PolicyAccount): Promise<AccessToken> {
    const { dialer, http, clock, userAgent, limits } = this.#options;
    const serviceAccount = readServiceAccount(account);
    const url = new URL(serviceAccount.tokenUrl);
    const body = new URLSearchParams({
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion: signAssertion(serviceAccount, clock.nowMs()),
    });
    const reply = await sendSingleRequest(
      http,
      {
        target: await resolveTarget(dialer, url.origin, account),
        method: "POST",
        path: url.pathname + url.search,
        headers: `user-agent: ${userAgent}\r\naccept: application/json\r\naccept-encoding: identity\r\ncontent-type: application/x-www-form-urlencoded\r\n`,
        body: wholePart(Buffer.from(body.toString())),
      },
      { timeoutMs: limits.timeoutMs, bytesMax: limits.responseBytesMax },
    );
    if (reply.kind === "failed") {
      const failureClass = reply.failure === "late" ? "timeout" : "connect";
      throw tokenError(failureClass, reply.failure);
    }
    if (reply.status !== 200) throw tokenError(classifyStatus(reply.status), `status ${reply.status}`);
    const token = reply.body === null ? null : readToken(reply.body, clock.monotonicMs());
    if (token === null) throw tokenError("bad_answer", "not a token");
    return token;
  }
}

/** The service account of the credential, parsed once for each account. Throws an `AccessTokenError`. */
export function readServiceAccount(account: PolicyAccount): ServiceAccount {
  let parsed = serviceAccounts.get(account);
  if (parsed === undefined) {
    parsed = parseServiceAccount(account.credential ?? "", account.baseUrl);
    serviceAccounts.set(account, parsed);
  }
  if (typeof parsed === "string") throw tokenError("credential", "not a service account");
  return parsed;
}

const serviceAccounts = new WeakMap<PolicyAccount, ReturnType<typeof parseServiceAccount>>();

/** A changed credential or address has tokens of its own. */
function stateKey({ credential, baseUrl, privateNetwork }: PolicyAccount): string {
  return `${baseUrl} ${privateNetwork} ${credential}`;
}

function newState(): TokenState {
  return { token: null, exchange: null, renewAtMs: 0 };
}

async function resolveTarget(dialer: Dialer, origin: string, account: PolicyAccount) {
  try {
    return await dialer.resolve(origin, account);
  } catch (cause) {
    throw tokenError("connect", cause instanceof DialError ? `dial: ${cause.reason}` : "dial");
  }
}

/** Google reports a deleted key and a wrong signature as `400 invalid_grant`, a deleted account as 401. */
function classifyStatus(status: number): FailureClass {
  if (status === 400 || status === 401 || status === 403) return "credential";
  if (status === 429) return "rate_limited";
  return status === 503 ? "overloaded" : "server";
}

function tokenError(failureClass: FailureClass, reason: string): AccessTokenError {
  return new AccessTokenError(upstreamFailure(failureClass, `access token: ${reason}`));
}

function readToken(body: Uint8Array, nowMs: number): AccessToken | null {
  const json = parseJson(body);
  if (!isObject(json)) return null;
  const { access_token: text, expires_in: seconds } = json;
  if (typeof text !== "string" || !TOKEN.test(text)) return null;
  if (typeof seconds !== "number" || !(seconds > 0)) return null;
  return { text, expiresAtMs: nowMs + Math.min(seconds, EXPIRES_IN_SECONDS_MAX) * 1_000 };
}
