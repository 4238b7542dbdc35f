/** E-mails to users. They are plain text, which every mail program shows and which cannot disguise a link. */

import type { MailMessage } from "../../mail/mail.ts";

export function resetEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Choose a new password",
    text: `A password reset was requested for your account ${to}.

Choose a new password:
${url}

The link works once, for one hour. When you choose a new password, all browsers are signed out and all personal access tokens are revoked. The page also lists your API keys, so that you can revoke keys that you do not recognize.

If you did not request this, ignore this e-mail. Your password stays unchanged.`,
  };
}

export function verificationEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Verify your address",
    text: `Welcome. Open this link to verify the address ${to} and to choose the password of your account:
${url}

The link works once, for three days. If you did not register, ignore this e-mail. No account is created without the link.`,
  };
}

export function accessResetEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Your access was reset",
    text: `An administrator has reset the access to your account ${to}. The password, two-factor authentication, and all sessions, personal access tokens and API keys are no longer valid.

Choose a new password:
${url}

The link works once, for one hour. Then create new API keys, and enable two-factor authentication again.`,
  };
}

export function alreadyRegisteredEmail(to: string, signInUrl: string): MailMessage {
  return {
    to,
    subject: "You already have an account",
    text: `A registration was requested for ${to}, but this address already has an account. No changes were made.

Sign in, or reset your password if you have forgotten it:
${signInUrl}

If you did not request this, ignore this e-mail.`,
  };
}

export function invitationEmail(to: string, url: string, by: string): MailMessage {
  return {
    to,
    subject: "Invitation to the model gateway",
    text: `${by} invited you to the model gateway. Choose a password to create your account:
${url}

The link works once, for seven days.`,
  };
}

export function signInEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Your sign-in link",
    text: `An administrator created a sign-in link for you:
${url}

The link works once, for one hour. It signs in to your account: do not share it.`,
  };
}

export function accountLinkEmail(
  to: string,
  { url, provider }: { url: string; provider: string },
): MailMessage {
  return {
    to,
    subject: "Link your account",
    text: `A sign-in at ${provider} with the address ${to} requests to link your account to it. If it was you, open this link in the same browser:
${url}

The link works once, within ten minutes after the sign-in. All other browsers are then signed out and all personal access tokens are revoked. API keys keep working: check them afterwards.

If it was not you, ignore this e-mail. Your account stays unchanged.`,
  };
}

export function testEmail(to: string, consoleUrl: string): MailMessage {
  return {
    to,
    subject: "Test mail of the model gateway",
    text: `This is a test mail of the gateway at ${consoleUrl}. The mail settings work. No action is required.`,
  };
}
