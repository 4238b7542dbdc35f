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
    why: "the console's API: nobody is signed in, or the session has ended",
    todo: "sign in, or send a personal access token as bearer",
    retry: "no",
    example: "Sign in first, or send a personal access token as bearer.",
  },
  wrong_credentials: {
    why: "the console: address or password, or the second factor, is wrong",
    todo: "try again, or have the password reset",
    retry: "no",
    example: "The address or the password is wrong.",
  },
  second_factor_required: {
    why: "the console: the password is right, and a code of the second factor is missing",
    todo: "send the code of your authenticator, or a recovery code",
    retry: "no",
    example: "Send the code of your authenticator as well.",
  },
  forbidden: {
    why: "the console's API: only administrators may do this, or a personal access token may not",
    todo: "ask an administrator, or sign in",
    retry: "no",
    example: "Only administrators may do this. Ask one of them.",
  },
  foreign_origin: {
    why: "a browser sent this from a page of another site",
    todo: "open the console at its own address",
    retry: "no",
    example: "This request came from another site. Open the console at its own address.",
  },
  misdirected_request: {
    why: "a page or the console's API was opened under a host name that is not the gateway's",
    todo: "open the gateway at its own address, or have the name added to `server.allowed_hosts`",
    retry: "no",
    example:
      '"gateway.lan" is not a name of this gateway. Open the gateway at its own address, or add the name to server.allowed_hosts.',
  },
  registration_closed: {
    why: "nobody can register at the moment",
    todo: "ask an administrator for an invitation",
    retry: "no",
    example: "Registration is closed. Ask an administrator for an account.",
  },
  not_found: {
    why: "the console's API: there is no such thing, or it is not yours; a model call: no account that was asked has what the request names (an item, a file, a conversation) or asks for",
    todo: "check the id, or do as the message says",
    retry: "no",
    example: "There is no such key, or it is not yours.",
  },
  conflict: {
    why: "somebody else has changed it meanwhile, or the name is taken",
    todo: "look at it again, then repeat the change",
    retry: "no",
    example: "Another group has this name already. Choose another one.",
  },
  link_used_up: {
    why: "a one-time link was used before, or has expired",
    todo: "ask for a new one",
    retry: "no",
    example: "This link was used before, or has expired. Ask for a new one.",
  },
} as const satisfies Partial<Record<ErrorCode, ErrorGuide>>;
