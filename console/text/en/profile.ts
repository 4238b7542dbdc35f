/** English texts: the profile. */

import { plural } from "../plural.ts";

export const profile = {
  title: "Profile and security",
  about: "Your account, sign-in methods and active sessions.",
  facts: {
    email: "E-mail address",
    role: "Role",
    provider: "Sign-in",
    roles: { admin: "Administrator", auditor: "Auditor", user: "User" },
  },
  verify: {
    title: "Verify your address",
    text: (email: string) =>
      `To create keys, open the link that was sent to ${email} and choose a new password.`,
    again: "Resend link",
    sent: "Link sent.",
  },
  provider: {
    title: "Company sign-in",
    about:
      "Link your account to sign in with your company instead of a password. An administrator can undo it.",
    link: (provider: string) => `Link with ${provider}`,
    linked: (provider: string) => `with ${provider}, which manages your password and second factor`,
    confirm: (provider: string) =>
      `You continue at ${provider}. Afterwards you sign in only there, and the password of this account no longer works.`,
    submit: "Continue",
  },
  password: {
    title: "Password",
    about: "Changing the password signs out all other browsers.",
    none: "You have no password, because you signed in with a link. Set a password to sign in without a link.",
    present: "Current password",
    next: "New password",
    submit: "Change password",
    choose: "Set password",
    done: "Password changed. All other browsers were signed out.",
  },
  secondFactor: {
    title: "Two-factor authentication",
    about: "Requires a code from an authenticator app in addition to your password.",
    off: "Disabled",
    on: "Enabled",
    since: "Enabled since",
    codesLeft: "Recovery codes remaining",
    fewCodes: (left: number) =>
      left === 0
        ? "No recovery codes remain. Create new codes, or you are locked out if you lose your phone."
        : `Only ${plural(left, "1 recovery code remains", "# recovery codes remain")}. Create new codes soon.`,
    turnOn: "Enable",
    turnOff: "Disable",
    newCodes: "New recovery codes",
    begin: {
      title: "Enable two-factor authentication",
      about: "Confirm your identity first.",
      submit: "Continue",
    },
    scan: {
      title: "Add the account to your app",
      about:
        "Scan the QR code with an authenticator app, or enter the secret manually. Then enter the code from the app.",
      picture: "QR code of the secret",
      secret: "Secret",
      open: "Open in an app on this device",
      code: "Code",
      submit: "Enable",
    },
    codes: {
      title: "Save your recovery codes",
      about:
        "Each code lets you sign in once without the app. The codes are shown only once: print them, or store them separately from your phone.",
      label: "Recovery codes",
      done: "I have saved them",
    },
    remove: {
      title: "Disable two-factor authentication?",
      text: "You then sign in with the password alone. Confirm with your password and a code. All other browsers are signed out.",
      submit: "Disable",
      done: "Two-factor authentication disabled.",
    },
    renew: {
      title: "Create new recovery codes",
      text: "Confirm with your password and a code. The old recovery codes stop working immediately.",
      submit: "Create codes",
    },
    password: "Password",
    code: "Authenticator or recovery code",
  },
  sessions: {
    title: "Active sessions",
    about: "End sessions that you do not recognize, and change your password.",
    browser: "Browser",
    address: "IP address",
    seen: "Last active",
    created: "Signed in",
    current: "This session",
    end: "Sign out",
    tools: "Actions",
    endTitle: "Sign out this session?",
    endText: (browser: string) => `${browser} must sign in again.`,
    others: "Sign out all other sessions",
    othersTitle: "Sign out all other sessions?",
    othersText: "They must sign in again. This session stays active.",
    ended: "Signed out.",
    unknown: "Unknown client",
    on: (browser: string, system: string) => `${browser} on ${system}`,
  },
  tokens: {
    title: "Personal access tokens",
    about:
      "For programs that call the console API on your behalf. They cannot call models: use API keys for that.",
    create: "Create token",
    name: "Name",
    nameHint: "The purpose of the token.",
    scope: "Scope",
    scopes: { read: "Read", keys: "Keys", admin: "Admin", export: "Export" },
    scopeChoices: {
      read: "Read only",
      keys: "Read, and manage API keys",
      admin: "Read, manage API keys, and administer the gateway",
      export: "Usage export only",
    },
    scopeHint: "Tokens cannot change passwords, two-factor authentication, sessions or tokens.",
    expires: "Expires",
    expiry: { "30": "In 30 days", "90": "In 90 days", "365": "In 1 year", never: "Never" },
    submit: "Create token",
    made: {
      title: "Token created",
      once: "Copy the token now. It is shown only once.",
      secret: "Token",
      example: "Example",
      done: "I have saved it",
    },
    token: "Token",
    used: "Last used",
    until: "Expires",
    expired: "Expired",
    tools: "Actions",
    revoke: "Revoke",
    revokeTitle: "Revoke this token?",
    revokeText: (name: string) => `Requests with ${name} are rejected immediately.`,
    revoked: "Token revoked.",
    none: "No tokens yet",
    noneText:
      "Create a token for a script that calls the console API. The API is described at /api/openapi.json.",
  },
};
