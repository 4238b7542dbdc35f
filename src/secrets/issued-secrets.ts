/**
 * The forms of all secrets that the gateway issues, to find them in a text. A test mints each kind. Not listed are
 * recovery codes, and secrets without their cookie or link: other text has the same form.
 */

import { CHARS_OF_256_BITS } from "./base62.ts";

/** A part of a secret is a secret too: a text may end in the middle of one. */
const PART_CHARS_MIN = 16;

export const ISSUED_SECRETS = {
  "API key": new RegExp(`gwk_\\w{${PART_CHARS_MIN},}`, "g"),
  "personal access token": new RegExp(`gwp_\\w{${PART_CHARS_MIN},}`, "g"),
  "service token": new RegExp(`gws_\\w{${PART_CHARS_MIN},}`, "g"),
  "refresh token": new RegExp(`gwr_\\w{${PART_CHARS_MIN},}`, "g"),
  "session cookie": new RegExp(`(?<=__Host-session=)[0-9A-Za-z]{${PART_CHARS_MIN},}`, "g"),
  "one-time link": new RegExp(`(?<=/console/[a-z]{1,16}#)[0-9A-Za-z]{${CHARS_OF_256_BITS}}`, "g"),
  "redeem code": /\b[0-9A-HJKMNP-TV-Z]{4}(?:-[0-9A-HJKMNP-TV-Z]{4}){5}\b/g,
  "key of a second factor": /otpauth:\/\/[^\s"]{1,512}/g,
} as const satisfies Record<string, RegExp>;
