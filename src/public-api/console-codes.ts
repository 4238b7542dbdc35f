/** The error codes of the console and its API, explained as in `error-guide.ts`. */

import type { ErrorCode } from "../errors.ts";
import type { Advice } from "./upstream-codes.ts";

export interface ErrorGuide extends Advice {
  /** An example of a message that a client may receive. */
  readonly example: string;
  readonly param?: string;
}

export const CONSOLE_GUIDE = {
  sign_in_required: {
    why: "console API: there is no session, or the session has ended",
    todo: "sign in, or send a personal access token as bearer token",
    retry: "no",
    example: "Sign in first, or send a personal access token as bearer token.",
  },
  wrong_credentials: {
    why: "console: the address, the password or the two-factor code is incorrect",
    todo: "try again, or reset the password",
    retry: "no",
    example: "The address or the password is incorrect.",
  },
  confirmation_required: {
    why: "console: the operation needs a recent sign-in at your provider",
    todo: "sign in there again, within five minutes before the operation",
    retry: "no",
    example: "Sign in at corp again to confirm this operation.",
  },
  second_factor_required: {
    why: "console: the password is correct, and a two-factor code is required",
    todo: "send a code from your authenticator app, or a recovery code",
    retry: "no",
    example: "Enter the code from your authenticator app.",
  },
  sign_in_expired: {
    why: "console: the sign-in at a provider took longer than ten minutes, was completed before, or began in another browser",
    todo: "start the sign-in again",
    retry: "no",
    example: "Sign-in expired. Start again.",
  },
  identity_rejected: {
    why: "console: the response of the provider is not valid: wrong issuer, audience, signature, algorithm, nonce or time",
    todo: "start again. An administrator finds the reason on the page Directory and in the log",
    retry: "no",
    example:
      "The sign-in at corp was rejected. Start again, or ask an administrator, who can see the reason.",
  },
  address_not_verified: {
    why: "console: the provider has not verified your e-mail address",
    todo: "verify the address at the provider, or ask an administrator",
    retry: "no",
    example: "The provider has not verified the address ada@example.com.",
  },
  not_assigned: {
    why: "console: your account at the provider may not use this gateway: a group is missing, or the domain is not allowed",
    todo: "ask an administrator for the group that the message names",
    retry: "no",
    example:
      "Your account at the provider is not assigned to this gateway: the claim `groups` has no group that is required. Ask an administrator.",
  },
  sign_in_unavailable: {
    why: "console: the provider does not respond, or too many people sign in at the same time",
    todo: "try again shortly. People who are signed in can continue",
    retry: "later",
    example: "corp does not respond. Try again shortly.",
  },
  forbidden: {
    why: "console API: the operation requires an administrator, or is not available to personal access tokens",
    todo: "ask an administrator, or sign in",
    retry: "no",
    example: "Only administrators may do this. Ask an administrator.",
  },
  not_in_scope: {
    why: "console API: a file that a service account applies would change more than its scopes allow",
    todo: "remove the named lines from the file, or apply the file on the host",
    retry: "no",
    example:
      "gateway.yaml:12:5  users[0]: would change user ada@example.com. This service account may not change it. Remove it from the file, or apply the file on the host.",
    param: "users[0]",
  },
  bound_exceeded: {
    why: "console API: a top-up exceeds what the service account may book in one call or on one day",
    todo: "send a smaller amount, wait for the next day in UTC, or ask an administrator to raise the bound",
    retry: "later",
    example: "amount: the bound of the day is exceeded. Today (UTC) it may still top up $100.00 of $5000.00.",
    param: "amount",
  },
  foreign_origin: {
    why: "a browser sent the request from a page of another site",
    todo: "open the console at its own address",
    retry: "no",
    example: "This request was sent by a page of another site. Use the console instead.",
  },
  misdirected_request: {
    why: "a page or the console API was opened under a host name that does not belong to the gateway",
    todo: "open the gateway at its own address, or ask your administrator to add the name to `server.allowed_hosts`",
    retry: "no",
    example:
      '"gateway.lan" is not a host name of this gateway. Open the gateway at its own address, or add the name to server.allowed_hosts.',
  },
  registration_closed: {
    why: "registration is closed",
    todo: "ask an administrator for an invitation",
    retry: "no",
    example: "Registration is closed. Ask an administrator for an account.",
  },
  not_found: {
    why: "console API: the object does not exist, or belongs to another user; model request: no account has the item, file or conversation that the request refers to",
    todo: "check the id, or follow the message",
    retry: "no",
    example: "You have no such key. GET /api/keys lists your keys.",
  },
  conflict: {
    why: "another user changed the object, or the name is taken",
    todo: "reload the object, then repeat the change",
    retry: "no",
    example: "name: another group already has this name. Choose another name.",
  },
  account_exists: {
    why: "console: the provider verified an address that belongs to an account here, which is not linked",
    todo: "link the account with its password or a mailed link, on the page that follows, within ten minutes",
    retry: "no",
    example: "The address ada@example.com already has an account. Prove that it is yours to link it.",
  },
  precondition_failed: {
    why: "SCIM: the resource has changed since the version of `If-Match`",
    todo: "read the resource again, then repeat the change",
    retry: "no",
    example: "The resource has changed since it was read. Read it again.",
  },
  link_used_up: {
    why: "the one-time link was used or has expired",
    todo: "request a new link",
    retry: "no",
    example: "This link was already used, has expired, or was replaced by a newer one. Request a new link.",
  },
} as const satisfies Partial<Record<ErrorCode, ErrorGuide>>;
