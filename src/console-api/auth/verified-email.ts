/** Requires a verified e-mail address. */

import { ApiError } from "../../errors.ts";
import { findCredentials } from "../../store/identity/credentials.ts";
import type { ConsoleContext } from "../context.ts";

/**
 * Rejects self-registered users who have not verified their address. Without mail, verification is not possible
 * and not required.
 */
export async function requireVerified(
  context: Pick<ConsoleContext, "installation" | "mail">,
  userId: string,
): Promise<void> {
  const found = await findCredentials(context.installation.db, userId);
  if (!found?.mustVerify || (await context.mail()) === null) return;
  throw new ApiError(
    "forbidden",
    `Verify your address first: open the link that was sent to ${found.email}. You can send it again from your profile.`,
  );
}
