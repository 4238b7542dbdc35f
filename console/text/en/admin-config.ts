import { plural } from "../plural.ts";

export const adminConfig = {
  title: "Import and export",
  about:
    "The whole installation as gateway.yaml. What you do in the console and what the file says are the same thing.",
  export: {
    title: "Export",
    about: "Secrets are left out; applying the file again keeps them.",
    download: "Download gateway.yaml",
    show: "Show it here",
    label: "gateway.yaml as it is now",
  },
  import: {
    title: "Import",
    about: "Paste a file, or choose one. Nothing is written before you have seen the difference.",
    choose: "Choose a file",
    text: "gateway.yaml",
    textHint: "A part is enough: what it does not name stays as it is.",
    placeholder: "groups:\n  - name: team\n    models: [gpt-5-mini]\n    accounts: [openai-1]\n",
    prune: "Also remove what the text does not name",
    pruneHint:
      "Groups, accounts, models, users and keys that are not in the text go. Administrators stay if it names none.",
    look: "Show the difference",
    tooLarge: "The file is larger than 16 MB.",
  },
  difference: {
    title: "Difference",
    none: "Nothing to change: the installation is as the text says.",
    counts: (created: number, changed: number, removed: number) =>
      `${created} to create, ${changed} to change, ${removed} to remove`,
    kinds: { create: "create", change: "change", remove: "remove" },
    nothing: "(none)",
    becomes: "becomes",
    notes: "What is not done",
    stale: "The text has changed since. Show the difference again.",
    apply: (count: number) => plural(count, "Apply this change", "Apply these # changes"),
    removes: (count: number) =>
      plural(
        count,
        "One thing is removed. This cannot be undone.",
        "# things are removed. This cannot be undone.",
      ),
    confirm: "Apply and remove",
    confirmTitle: "Apply, and remove what the text does not name?",
    pruned: "Keys that go are revoked for good, and whoever uses them is refused at once.",
    applied: (count: number) => plural(count, "One change is in force.", "# changes are in force."),
  },
  problems: {
    title: (count: number) => plural(count, "One problem in the text", "# problems in the text"),
    place: (line: number, column: number) => `Line ${line}, column ${column}`,
  },
  keys: {
    title: "Keys were made",
    about: "Their secrets are shown this once. Keep them now.",
    of: (name: string, group: string) => `${name} in ${group}`,
  },
};
