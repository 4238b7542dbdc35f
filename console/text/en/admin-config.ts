/** English texts: import and export of the configuration. */

import { plural } from "../plural.ts";

export const adminConfig = {
  title: "Import and export",
  about: "The complete configuration as gateway.yaml. The console and the file edit the same configuration.",
  export: {
    title: "Export",
    about: "Secrets are not exported. Applying the file again keeps the stored secrets.",
    download: "Download gateway.yaml",
    show: "Show",
    label: "Current gateway.yaml",
  },
  import: {
    title: "Import",
    about: "Paste or choose a file. Nothing is changed until you review and apply the diff.",
    choose: "Choose a file",
    text: "gateway.yaml",
    textHint: "A partial file is allowed. Objects that it does not name are unchanged.",
    placeholder: "groups:\n  - name: team\n    models: [gpt-5-mini]\n    accounts: [openai-1]\n",
    prune: "Delete objects that are not in the file",
    pruneHint:
      "Groups, accounts, models, users and keys that are not in the file are deleted. Administrators are kept if the file names none.",
    look: "Show diff",
    tooLarge: "The file is larger than 16 MB.",
  },
  difference: {
    title: "Diff",
    none: "No changes: the configuration already matches the file.",
    counts: (created: number, changed: number, removed: number) =>
      `${created} to create, ${changed} to update, ${removed} to delete`,
    kinds: { create: "create", change: "update", remove: "delete" },
    nothing: "(none)",
    becomes: "becomes",
    notes: "Not applied",
    stale: "The text has changed. Show the diff again.",
    apply: (count: number) => plural(count, "Apply 1 change", "Apply # changes"),
    removes: (count: number) =>
      plural(
        count,
        "1 object will be deleted. This cannot be undone.",
        "# objects will be deleted. This cannot be undone.",
      ),
    confirm: "Apply and delete",
    confirmTitle: "Apply, and delete objects that are not in the file?",
    pruned: "Deleted keys are revoked permanently. Requests with these keys are rejected immediately.",
    applied: (count: number) => plural(count, "1 change applied.", "# changes applied."),
  },
  problems: {
    title: (count: number) => plural(count, "1 error in the file", "# errors in the file"),
    place: (line: number, column: number) => `Line ${line}, column ${column}`,
  },
  keys: {
    title: "Keys created",
    about: "The secrets are shown only once. Copy them now.",
    of: (name: string, group: string) => `${name} in ${group}`,
  },
};
