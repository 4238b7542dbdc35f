/** English texts: the first setup. */

import { plural } from "../plural.ts";

export const adminSetup = {
  title: "Setup",
  about: "From a vendor account to the first request. The simulator and its demo group do not count.",
  checklist: "Setup checklist",
  close: "Close the checklist. Help shows it again.",
  done: "Done",
  steps: {
    account: "Add a vendor account",
    models: "Publish models",
    price: "Set a price for every published model",
    person: "Invite a person",
    tool: "Connect a tool",
    request: "See the first request",
  },
  actions: {
    account: "Add account",
    models: "Publish models",
    price: "Set prices",
    person: "Invite",
    tool: "Connect a tool",
    request: "Open the playground",
  },
  vendor: {
    title: "Add a vendor account",
    about: "The gateway lists the models of the account and proposes those that the price list has.",
    vendor: "Vendor",
    credential: "API key of the vendor",
    credentialHint: "Stored encrypted. It is never shown again.",
    list: "List models",
    other: "Azure, Amazon Bedrock, Google Vertex AI, and servers of your own need more fields:",
    allAccounts: "Accounts",
  },
  publish: {
    priced: "Models with a list price",
    unpriced: "Models without a price",
    unpricedHint: "They cost nothing until you set a price under Models and prices.",
    price: (input: string, output: string) => `${input} input, ${output} output per 1M tokens`,
    group: "Group",
    groupHint: "Every user can create keys in a new group. An existing group is extended.",
    submit: "Add account and publish",
    back: "Back",
  },
  published: {
    done: (account: string, count: number, group: string) =>
      plural(
        count,
        `The account ${account} was added. The group ${group} publishes 1 model.`,
        `The account ${account} was added. The group ${group} publishes # models.`,
      ),
    playground: "Open the playground",
    connect: "Connect a tool",
    call: (model: string, cost: string) => `Send one request to ${model}, at most ${cost}`,
    callUnpriced: (model: string) => `Send one request to ${model}, at the vendor's price`,
    keyName: "Setup",
    failed: "The request failed. Open Usage for the reason.",
  },
};
