/** Addresses of lists that show what a number counts. */

type UsageScope = Readonly<Partial<Record<"user" | "group" | "model" | "account", string>>>;

export function keysLink(owner: Readonly<{ user: string } | { group: string }>): string {
  return `/admin/keys?${new URLSearchParams(owner)}`;
}

/** What a group has. */
export function groupLink(list: "models" | "accounts" | "users", group: string): string {
  return `/admin/${list}?${new URLSearchParams({ group })}`;
}

/** The requests of all users within the scope. */
export function usageLink(scope: UsageScope, range: "day" | "month"): string {
  return `/usage?${new URLSearchParams({ whose: "everybody", range, ...scope })}`;
}
