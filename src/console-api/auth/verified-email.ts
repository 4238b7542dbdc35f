import { ApiError } from "../../errors.ts";
import { findCredentials } from "../../store/identity/credentials.ts";
import type { ConsoleContext } from "../context.ts";

/** Whoever registered by themselves shows first that the address is theirs. Without mail nobody could. */
export async function requireVerified(control: ConsoleContext, userId: string): Promise<void> {
  const found = await findCredentials(control.installation.db, userId);
  if (!found?.mustVerify || (await control.mail()) === null) return;
  throw new ApiError(
    "forbidden",
    `Verify your address first: open the link that was sent to ${found.email}. Your profile sends it again.`,
  );
}
