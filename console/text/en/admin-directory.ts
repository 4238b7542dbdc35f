/** English texts: the page of people who sign in at a provider. */

import { plural } from "../plural.ts";

export const adminDirectory = {
  title: "Directory",
  about: (providers: string) =>
    `People who sign in with ${providers}. Their roles and groups follow the claims of each sign-in, or the groups that the directory pushes.`,
  noProvider: "No provider is configured. Add sign_in.providers to gateway.yaml.",
  losses: {
    title: (provider: string) => `${provider} lost many people at once`,
    text: (suspended: number, people: number) =>
      `${suspended} of ${people} people lost their access within minutes, and their keys are suspended. If this is a mistake, correct it at the provider and restore them.`,
    restore: (suspended: number) => plural(suspended, "Restore 1 person", "Restore # people"),
    done: (people: number, keys: number) =>
      `${plural(people, "1 person", "# people")} and ${plural(keys, "1 key", "# keys")} restored.`,
  },
  people: "People",
  person: "Person",
  provider: "Provider",
  subject: "Subject",
  signedIn: "Last sign-in",
  origin: "Known from",
  origins: {
    no: "Sign-in",
    active: "Push",
    deactivated: "Push",
    removed: "Push",
  },
  pushedStates: {
    deactivated: "Deactivated by the directory",
    removed: "Removed by the directory",
  },
  state: "Keys",
  active: "Active",
  suspended: "Suspended",
  suspendedKeys: (count: number) => plural(count, "1 key suspended", "# keys suspended"),
  tools: "Actions",
  unlink: (email: string) => `Unlink ${email}`,
  unlinking: {
    confirm: "Unlink",
    text: "The user becomes a local one: roles and groups of the directory end, with all sessions and tokens. Suspended keys stay revoked. To sign in again, the user needs a password or a link.",
  },
  noPeople: {
    title: "No people yet",
    text: "People are listed here after their first sign-in at a provider, or when the directory pushes them.",
  },
  scim: {
    title: "SCIM",
    about: (provider: string) => `The directory of ${provider} pushes people and groups.`,
    off: "SCIM is off. Set scim in gateway.yaml.",
    lastPush: "Last push",
    noPush: "None yet",
    by: "Service account",
    pushed: "Pushed",
    counts: (people: number, groups: number) =>
      `${plural(people, "1 person", "# people")}, ${plural(groups, "1 group", "# groups")}`,
    source: "Roles and groups",
    sources: { pushed: "From pushed groups", claims: "From the claims of sign-ins" },
    rejected: "Rejected pushes",
    noRejected: "No push was rejected in the last 30 days",
    request: "Request",
  },
  rejected: "Rejected sign-ins",
  aboutRejected: "The last 30 days, with the reason that only administrators see.",
  noRejected: "No sign-in was rejected",
  at: "Time",
  unknown: "unknown",
  code: "Error",
  reason: "Reason",
};
