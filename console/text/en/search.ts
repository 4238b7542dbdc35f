/** English texts: the search. */

export const search = {
  title: "Search",
  results: (text: string) => `Results for “${text}”`,
  kinds: { keys: "API keys", users: "Users", models: "Models", accounts: "Accounts", groups: "Groups" },
  hint: {
    admin: "Enter a request ID, or a part of the name of a key, user, model, account or group.",
    user: "Enter a request ID, or a part of the name of a key.",
  },
  none: { title: "Nothing found", text: "Check the spelling. A request ID begins with req_." },
};
