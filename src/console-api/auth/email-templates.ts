/** E-mails to users. They are plain text, which every mail program shows and which cannot disguise a link. */

import type { MailMessage } from "../../mail/mail.ts";

export function resetEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Choose a new password",
    text: `Somebody, hopefully you, asked for a new password for ${to}.

Choose one here:
${url}

The link works once, for an hour. With the new password every browser is signed out and your personal access tokens are revoked. The page also lists your API keys, so that you can revoke those you do not recognize. If it was not you, do nothing: the password stays as it is.`,
  };
}

export function verificationEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Verify your address",
    text: `Welcome. Open this link to show that ${to} is yours, and to choose the password of your account:
${url}

It works once, for three days. If you did not register, do nothing: without the link there is no account.`,
  };
}

export function accessResetEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Your access was reset",
    text: `An administrator has reset the access to your account ${to}: the password, the second factor, all sessions, personal access tokens and API keys no longer work.

Choose a new password here:
${url}

The link works once, for an hour. Then create new API keys, and turn the second factor on again.`,
  };
}

export function alreadyRegisteredEmail(to: string, signInUrl: string): MailMessage {
  return {
    to,
    subject: "You have an account already",
    text: `Somebody, hopefully you, wanted to open an account with ${to}. There is one already, and nothing was changed.

Sign in here, or choose a new password if you have forgotten it:
${signInUrl}

If it was not you, do nothing.`,
  };
}

export function invitationEmail(to: string, url: string, by: string): MailMessage {
  return {
    to,
    subject: "You are invited",
    text: `${by} invites you to the model gateway. Choose a password here:
${url}

The link works once, for seven days.`,
  };
}

export function signInEmail(to: string, url: string): MailMessage {
  return {
    to,
    subject: "Your link to sign in",
    text: `An administrator made you a link to sign in:
${url}

It works once, for an hour. Whoever opens it is signed in as you: do not pass it on.`,
  };
}

export function testEmail(to: string, consoleUrl: string): MailMessage {
  return {
    to,
    subject: "A test of the model gateway's mail",
    text: `Mail works: this was sent by the gateway at ${consoleUrl}. There is nothing to do.`,
  };
}
