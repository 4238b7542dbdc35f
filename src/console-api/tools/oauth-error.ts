/** Errors of the endpoints that tools call, in the form of OAuth 2.0 (RFC 6749, RFC 8628). */

type OAuthCode =
  | "invalid_request"
  | "unsupported_grant_type"
  | "authorization_pending"
  | "slow_down"
  | "access_denied"
  | "expired_token"
  | "invalid_grant"
  | "temporarily_unavailable";

const STATUS: Readonly<Partial<Record<OAuthCode, number>>> = {
  // Claude Code shows that the sign-in has ended at this status only.
  invalid_grant: 401,
  // Tools continue with the access token that they have.
  temporarily_unavailable: 503,
};

export class OAuthError extends Error {
  override readonly name = "OAuthError";
  readonly code: OAuthCode;
  readonly retryAfterSeconds: number | null;

  constructor(code: OAuthCode, message: string, retryAfterSeconds: number | null = null) {
    super(message);
    this.code = code;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  toResponse(): Response {
    // Above a bound, RFC 8628 has no status of its own; 429 is what clients wait for.
    const status =
      this.code === "slow_down" && this.retryAfterSeconds !== null ? 429 : (STATUS[this.code] ?? 400);
    const headers: Record<string, string> =
      this.retryAfterSeconds === null ? {} : { "retry-after": String(this.retryAfterSeconds) };
    return Response.json({ error: this.code, error_description: this.message }, { status, headers });
  }
}

export function invalidGrant(): OAuthError {
  return new OAuthError("invalid_grant", "The sign-in has ended or was never valid. Sign in again.");
}
