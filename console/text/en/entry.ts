/** Texts for people who are not signed in. */

import { plural } from "../plural.ts";

export const entry = {
  email: "E-mail address",
  password: "Password",
  passwordHint: (least: number) =>
    `At least ${least} characters. A passphrase of several random words works well.`,
  signIn: {
    title: "Sign in",
    submit: "Sign in",
    forgot: "Forgot your password?",
    register: "No account yet? Create one",
    invite: "No account yet? Ask an administrator for an invitation.",
    closed: "No account yet? Registration is closed: ask an administrator.",
    unclaimed: {
      title: "No administrator yet",
      text: "Open the link that the gateway printed at startup. It works once and expires after one hour. Restart the gateway to get a new link.",
    },
  },
  providers: {
    signIn: (provider: string) => `Sign in with ${provider}`,
    or: "Or with a password:",
    asAdmin: "Sign in as an administrator, with a password",
    finishing: "Signing in…",
    failed: "Sign-in failed",
    notSignedIn: "You are not signed in",
  },
  code: {
    title: "Two-factor authentication",
    about: "Enter the six-digit code from your authenticator app, or a recovery code.",
    label: "Code",
    back: "Use a different account",
  },
  claim: {
    title: "Create the administrator account",
    about: "Choose the e-mail address and password of the first administrator.",
    submit: "Create administrator",
  },
  register: {
    title: "Create an account",
    about: "With an account you can create API keys and view their usage.",
    aboutMail: "We send a link to your address. Open it to choose a password and create the account.",
    submit: "Create account",
    submitMail: "Send link",
    closed: "Registration is closed. Ask an administrator for an account.",
    invite: "Registration requires an invitation. Ask an administrator for a link.",
    haveOne: "Already have an account? Sign in",
    sent: {
      title: "Check your e-mail",
      text: (email: string) =>
        `We sent a message to ${email}. Open the link in it to choose your password. If you do not find it, check your spam folder.`,
    },
  },
  join: {
    title: "Accept the invitation",
    about: (email: string) => `This invitation is for ${email}. Choose a password to create the account.`,
    submit: "Create account",
  },
  forgot: {
    title: "Forgot your password?",
    about:
      "We send a link to your address. It works once, within one hour, and lets you choose a new password.",
    submit: "Send link",
    sent: {
      title: "Check your e-mail",
      text: (email: string) =>
        `If an account with ${email} exists, a link has been sent. If you do not find it, check your spam folder.`,
    },
    noMail: "This gateway cannot send e-mail. Ask an administrator for a password reset link.",
    back: "Back to sign-in",
  },
  reset: {
    title: "Choose a new password",
    about: (email: string) =>
      `For ${email}. All browsers are signed out, and your personal access tokens are revoked.`,
    submit: "Save password",
    access: {
      keys: "API keys to revoke",
      isNew: "New",
      created: (when: string) => `created ${when}`,
      rotated: (when: string) => `rotated ${when}`,
      used: (when: string) => `last used ${when}`,
      neverUsed: "never used",
      confirmed: (when: string) =>
        `API keys keep working unless you select them. "New" means created or rotated after you last confirmed this address, ${when}. Revoke every key that you do not recognize.`,
      neverConfirmed:
        "API keys keep working unless you select them. This address was never confirmed before, so all of them are marked as new. Revoke every key that you do not recognize.",
      allKeys: (count: number) => `Revoke all ${count} API keys`,
      sessions: (count: number) => plural(count, "1 session", "# sessions"),
      tokens: (count: number) => plural(count, "1 token", "# tokens"),
      ending: (what: string) => `${what} will end`,
      token: (name: string) => `Token ${name}`,
      secondFactor:
        "Two-factor authentication stays enabled. If you did not enable it, ask an administrator to disable it. Enabled since",
    },
    done: {
      title: "Password changed",
      text: "Sign in with your new password.",
      keys: (count: number) => plural(count, "1 API key was revoked.", "# API keys were revoked."),
    },
  },
  verify: {
    title: "Verify your address",
    about: (email: string) => `Choose a password for ${email} to create your account.`,
    submit: "Verify and sign in",
  },
  link: {
    title: "Sign in with a link",
    about: (email: string) => `This link signs you in as ${email}. It works once.`,
    submit: "Sign in",
  },
  linkAccount: {
    title: "Link your account",
    about: (provider: string, email: string) =>
      `${provider} has verified ${email}. This address already has an account here. Prove that it is yours: it keeps its keys, balance and role, and you sign in at ${provider} from then on.`,
    password: "Password of the account",
    submit: "Link and sign in",
    mail: "Send a link to the address instead",
    mailHint: "For administrators, only the password works.",
    noPassword: "No password? Ask an administrator for a sign-in link, and link the account in your profile.",
    sent: {
      title: "Check your e-mail",
      text: (email: string) =>
        `If the account can be linked by mail, a link was sent to ${email}. Open it in this browser within ten minutes after the sign-in. If you do not find it, check your spam folder.`,
      back: "Enter the password instead",
    },
    confirm: (provider: string, email: string) =>
      `The account ${email} is linked to your sign-in at ${provider}. All other browsers are signed out, and personal access tokens are revoked. API keys keep working: check them afterwards.`,
    expired: {
      title: "This sign-in has expired",
      text: "An account is linked within ten minutes after the sign-in, once, and in the same browser. If you opened a link from an e-mail, open it in the browser in which you signed in. Otherwise start again.",
    },
  },
  insecure: {
    title: "This connection is not encrypted",
    text: (origin: string) =>
      `Others on the network path to ${origin} could read your password. Open the gateway over https, through a proxy whose address is set as PUBLIC_URL, or over http://localhost on the machine itself, for example with ssh -L.`,
  },
  broken: {
    title: "The link is incomplete",
    text: "A part of the URL is missing. Open the link again, or copy the complete link.",
    worthless: "This link is no longer valid",
  },
};
