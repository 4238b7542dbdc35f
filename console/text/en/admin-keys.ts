/** English texts: the keys of all users. */

export const adminKeys = {
  title: "All keys",
  about: "The API keys of all users, and those that belong to no user.",
  search: "Search by name, ID, owner or group",
  owner: "Owner",
  owners: { label: "Filter by owner", all: "All owners", none: "No owner" },
  noOwner: "No owner",
  deletedOwner: "Deleted user",
  ofUser: (email: string) => `Keys of ${email}`,
  ofGroup: (group: string) => `Keys of the group ${group}`,
  showAll: "Show all keys",
  noneFound: { title: "No keys found", text: "Try a different search, or show revoked keys." },
};
