/** Fields that several operations share. */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import {
  EMAIL_RULE,
  INSTANT_MS_MAX,
  isEmail,
  isName,
  NAME_RULE,
  usd,
  WINDOW_USD_RULE,
  windowUsd,
} from "../../config/schema/basic-values.ts";
import { isPassword } from "../../config/schema/people.ts";

/** E-mail addresses are compared case-insensitively, so they are stored in lower case. */
export const emailField = z
  .string()
  .refine(isEmail, { error: `must be ${EMAIL_RULE}` })
  .transform((value) => value.toLowerCase());

export const newPasswordField = z.string().refine(isPassword, {
  error: `must have ${limits.passwordCharsMin} to ${limits.passwordCharsMax} characters`,
});

/** A password to verify. Only its length is bounded, because hashing takes time. */
export const passwordField = z.string().min(1, { error: "is missing" }).max(1_024);

export const nameField = z.string().refine(isName, { error: `must be ${NAME_RULE}` });

export const usdField = z.string().refine((value) => usd.safeParse(value).success, {
  error: 'must be an amount in USD like "5.00"',
});

export const windowUsdField = z.string().refine((value) => windowUsd.safeParse(value).success, {
  error: `must be ${WINDOW_USD_RULE}`,
});

const INSTANT_ERROR = { error: "must be a time in milliseconds since 1970, before the year 10000" };

export const instantField = z.int(INSTANT_ERROR).min(0, INSTANT_ERROR).max(INSTANT_MS_MAX, INSTANT_ERROR);

export const instantQuery = z.coerce
  .number(INSTANT_ERROR)
  .int(INSTANT_ERROR)
  .min(0, INSTANT_ERROR)
  .max(INSTANT_MS_MAX, INSTANT_ERROR);

/** The token that follows the `#` of a one-time link. */
export const linkTokenField = z.string().min(1).max(200);

/** Six digits of an authenticator app, or a recovery code. */
export const codeField = z.string().trim().min(6).max(40);
