import { plural } from "../plural.ts";

/** The kit's own words, and those that every page says. */
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
  leave: "Leave this page? What you changed is not saved.",
  loadMore: "Show more",
  loading: "Loading",
  never: "never",
  no: "No",
  none: "None",
  notNumber: "This is not a number. Use digits alone, without separators or units.",
  optional: "optional",
  remove: "Remove",
  retry: "Try again",
  save: "Save",
  search: "Search",
  yes: "Yes",
  showSecret: "Show",
  hideSecret: "Hide",
  filterOptions: "Filter the choices",
  chosen: (count: number) => plural(count, "one chosen", "# chosen"),
  nothingFound: "Nothing was found.",
  lastDay: (requests: number) =>
    requests === 0
      ? "No request used it in the last 24 hours."
      : `${plural(requests, "One request", "# requests")} used it in the last 24 hours.`,
  typeToConfirm: (name: string) => `Type ${name} to confirm`,
  problem: {
    title: "This did not work",
    unreachable: "The gateway could not be reached. Try again in a moment.",
    unreachableTyped:
      "The gateway could not be reached. What you typed is still here: try again in a moment.",
    requestId: (id: string) => `Request ${id}`,
    crashed:
      "This page has failed. Load it again; if it persists, tell your administrator what you did before.",
    reload: "Load again",
  },
  chart: {
    table: "Show the figures as a table",
    time: "Time",
    noData: "Nothing in this range.",
    useArrows: "Use the arrow keys to read point by point.",
    total: "Total",
    other: "Others",
  },
  of: (part: string, whole: string) => `${part} of ${whole}`,
};
