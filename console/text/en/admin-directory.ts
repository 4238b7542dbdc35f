/** English texts: the page of people who sign in at a provider. */

import { plural } from "../plural.ts";

export const adminDirectory = {
  title: "Directory",
  about: (providers: string) =>
    `People who sign in with ${providers}. Their roles and groups follow the claims of each sign-in.`,
  noProvider: "No provider is configured. Add sign_in.providers to gateway.yaml.",
  people: "People",
  person: "Person",
  provider: "Provider",
  subject: "Subject",
  signedIn: "Last sign-in",
  state: "Keys",
  active: "Active",
  suspended: "Suspended until the next sign-in",
  suspendedKeys: (count: number) => plural(count, "1 key suspended", "# keys suspended"),
  tools: "Actions",
  unlink: (email: string) => `Unlink ${email}`,
  unlinking: {
    confirm: "Unlink",
    text: "The user becomes a local one: roles and groups of the directory end, with all sessions and tokens. Suspended keys stay revoked. To sign in again, the user needs a password or a link.",
  },
  noPeople: { title: "No one yet", text: "People are listed here after their first sign-in at a provider." },
  rejected: "Rejected sign-ins",
  aboutRejected: "The last 30 days, with the reason that only administrators see.",
  noRejected: "None.",
  at: "Time",
  unknown: "unknown",
  code: "Error",
  reason: "Reason",
};
