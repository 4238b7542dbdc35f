/** English texts: what all pages share. */

import { plural } from "../plural.ts";

/** Texts of shared components, and texts that every page uses. */
export const kit = {
  add: "Add",
  all: "All",
  cancel: "Cancel",
  close: "Close",
  copied: "Copied",
  copy: "Copy",
  create: "Create",
  delete: "Delete",
  done: "Done",
  edit: "Edit",
  leave: "Leave this page? You have unsaved changes.",
  loadMore: "Show more",
  loading: "Loading",
  never: "never",
  no: "No",
  none: "None",
  notNumber: "Enter a number without separators or units.",
  optional: "optional",
  remove: "Remove",
  retry: "Try again",
  save: "Save",
  search: "Search",
  translated: (interfaces: string) => `translated: ${interfaces}`,
  nativeCount: (count: number) => `${count} native`,
  translatedCount: (count: number) => `${count} translated`,
  translatedHelp:
    "Requests are translated into an interface that the account has. Settings that it lacks are dropped and named in x-gateway-dropped.",
  yes: "Yes",
  showSecret: "Show",
  hideSecret: "Hide",
  filterOptions: "Filter options",
  chosen: (count: number) => plural(count, "1 selected", "# selected"),
  nothingFound: "No results.",
  lastDay: (requests: number) =>
    requests === 0
      ? "Not used in the last 24 hours."
      : `${plural(requests, "1 request", "# requests")} in the last 24 hours.`,
  typeToConfirm: (name: string) => `Type ${name} to confirm`,
  problem: {
    title: "Something went wrong",
    unreachable: "The gateway is not reachable. Try again in a moment.",
    unreachableTyped: "The gateway is not reachable. Your input is kept: try again in a moment.",
    requestId: (id: string) => `Request ID: ${id}`,
    crashed: "This page failed. Reload it; if the problem persists, contact your administrator.",
    reload: "Reload",
  },
  chart: {
    table: "Show data as a table",
    time: "Time",
    noData: "No data in this time range.",
    useArrows: "Use the arrow keys to read the data points.",
    total: "Total",
    other: "Other",
  },
  of: (part: string, whole: string) => `${part} of ${whole}`,
};
