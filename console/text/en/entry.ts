/** For people who are not signed in. */

import { plural } from "../plural.ts";

export const entry = {
  email: "E-mail address",
  password: "Password",
  passwordHint: (least: number) =>
    `At least ${least} characters. A few words that only you would put together do well.`,
  signIn: {
    title: "Sign in",
    submit: "Sign in",
    forgot: "Forgot your password?",
    register: "No account yet? Create one",
    invite: "No account yet? Ask an administrator for an invitation.",
    closed: "No account yet? Registration is closed: ask an administrator.",
    unclaimed: {
      title: "Nobody is the administrator yet",
      text: "Open the link that the gateway showed when it started. It works once, for an hour; a restart makes a new one.",
    },
  },
  code: {
    title: "Enter your code",
    about: "Open your authenticator app and type the six digits it shows. A recovery code works, too.",
    label: "Code",
    back: "Sign in as somebody else",
  },
  claim: {
    title: "Become the administrator",
    about:
      "You have the one-time link of the first start. Choose the address and the password you will sign in with.",
    submit: "Create the administrator",
  },
  register: {
    title: "Create an account",
    about: "With an account you can make API keys and see what they use.",
    aboutMail: "We send a link to your address. Open it to choose your password and create the account.",
    submit: "Create the account",
    submitMail: "Send the link",
    closed: "Registration is closed. Ask an administrator for an account.",
    invite: "Registration is by invitation. Ask an administrator for a link.",
    haveOne: "Have an account? Sign in",
    sent: {
      title: "Look into your mail",
      text: (email: string) =>
        `We sent a message to ${email}. Open the link in it to choose your password. If you do not find it, check your spam folder.`,
    },
  },
  join: {
    title: "Accept the invitation",
    about: (email: string) => `The invitation is for ${email}. Choose a password, and you are in.`,
    submit: "Create the account",
  },
  forgot: {
    title: "Forgot your password?",
    about: "We send a link to your address. It lets you choose a new password, once, within an hour.",
    submit: "Send the link",
    sent: {
      title: "Look into your mail",
      text: (email: string) =>
        `If there is an account with ${email}, a link is on its way. Look into the folder for unwanted mail, too.`,
    },
    noMail: "This gateway sends no mail. Ask an administrator for a link to choose a new password.",
    back: "Back to signing in",
  },
  reset: {
    title: "Choose a new password",
    about: (email: string) =>
      `For ${email}. Every browser that is signed in is signed out, and your personal access tokens are revoked.`,
    submit: "Save the password",
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
        "A second factor is on and stays on. If you did not turn it on, ask an administrator to remove it. On since",
    },
    done: {
      title: "Your password was changed",
      text: "Sign in with it now.",
      keys: (count: number) => plural(count, "One API key was revoked.", "# API keys were revoked."),
    },
  },
  verify: {
    title: "Verify your address",
    about: (email: string) => `Choose a password for ${email} to create your account.`,
    aboutPresent: (email: string) =>
      `Choose a password for ${email}. Everything that was created with this account before it was verified (sessions, tokens, API keys and the second factor) is removed.`,
    submit: "Verify and sign in",
  },
  link: {
    title: "Sign in with a link",
    about: (email: string) => `This link signs you in as ${email}. It works once.`,
    submit: "Sign in",
  },
  insecure: {
    title: "This connection is not encrypted",
    text: (origin: string) =>
      `Anybody on the way to ${origin} could read a password. Open the gateway by https, through a proxy whose address is set as PUBLIC_URL, or by http://localhost on the machine itself, for example through ssh -L.`,
  },
  broken: {
    title: "The link is incomplete",
    text: "A part of the address is missing. Open the link again, or copy all of it.",
    worthless: "This link does not work any more",
  },
};
