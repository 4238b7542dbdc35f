/** Google's token endpoint: exchanges an assertion, signed by a known service account, for an access token. */

import { createPublicKey, type KeyObject, verify } from "node:crypto";
import type { Clock } from "../../src/base/clock.ts";
import { isRecord, parseJson } from "../json-fields.ts";

export interface KnownServiceAccount {
  readonly email: string;
  readonly keyId: string;
  /** The public key, or the private key that contains it, in PEM form. */
  readonly key: string;
}

const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ASSERTION_SECONDS_MAX = 3_600;

export class TokenIssuer {
  /** The lifetime of the tokens that are issued from now on. */
  tokenSeconds = 3_600;
  /** The time before an exchange gets its response. */
  delayMs = 0;
  /** Fails the next exchanges with this status. */
  failure: number | null = null;
  /** How many exchanges arrived, successful or not. */
  exchanges = 0;
  readonly #clock: Clock;
  readonly #email: string | null;
  readonly #keyId: string | null;
  readonly #key: KeyObject | null;
  readonly #expiries = new Map<string, number>();

  constructor(account: KnownServiceAccount | null, clock: Clock) {
    this.#clock = clock;
    this.#email = account?.email ?? null;
    this.#keyId = account?.keyId ?? null;
    this.#key = account === null ? null : createPublicKey(account.key);
  }

  async respond(request: Request): Promise<Response> {
    this.exchanges++;
    if (this.delayMs > 0) await Bun.sleep(this.delayMs);
    if (this.failure !== null) return Response.json({ error: "internal_failure" }, { status: this.failure });
    const form = new URLSearchParams(await request.text());
    if (form.get("grant_type") !== GRANT_TYPE) return reject("unsupported_grant_type", "Invalid grant_type");
    const fault = this.#check(form.get("assertion") ?? "", request.url);
    if (fault !== null) return reject("invalid_grant", fault);
    const text = `ya29.simulated-${crypto.randomUUID()}`;
    this.#expiries.set(text, this.#clock.nowMs() + this.tokenSeconds * 1_000);
    return Response.json({ access_token: text, expires_in: this.tokenSeconds, token_type: "Bearer" });
  }

  isValid(token: string | null): boolean {
    return token !== null && (this.#expiries.get(token) ?? 0) > this.#clock.nowMs();
  }

  revokeAll(): void {
    this.#expiries.clear();
  }

  /** Returns why the assertion is rejected, or null. */
  #check(assertion: string, url: string): string | null {
    const [head = "", body = "", signature = ""] = assertion.split(".");
    const [header, claims] = [head, body].map((part) => parseJson(Buffer.from(part, "base64url").toString()));
    if (!isRecord(header) || !isRecord(claims) || header.alg !== "RS256") return "Invalid JWT";
    if (this.#key === null || claims.iss !== this.#email || header.kid !== this.#keyId)
      return "Invalid grant: account not found";
    const signed = Buffer.from(`${head}.${body}`);
    if (!verify("RSA-SHA256", signed, this.#key, Buffer.from(signature, "base64url")))
      return "Invalid JWT Signature.";
    const { iat, exp, aud, scope } = claims;
    if (aud !== url || scope !== SCOPE) return "Invalid JWT: wrong audience or scope";
    const nowSeconds = this.#clock.nowMs() / 1_000;
    const isTimely =
      typeof iat === "number" && typeof exp === "number" && iat <= nowSeconds + 300 && exp > nowSeconds;
    return isTimely && exp - iat <= ASSERTION_SECONDS_MAX
      ? null
      : "Invalid JWT: Token must be a short-lived token";
  }
}

function reject(error: string, description: string): Response {
  return Response.json({ error, error_description: description }, { status: 400 });
}
