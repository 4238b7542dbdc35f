/** `model-gateway init`: writes and applies the first gateway.yaml, from the input of a person at a terminal. */

import { existsSync, writeFileSync } from "node:fs";
import { stringify } from "yaml";
import type { PolicyAccount } from "../accounts/account.ts";
import {
  accountFields,
  buildSetupDocument,
  type ProposedModel,
  proposeModels,
  SETUP_VENDORS,
  type SetupVendor,
} from "../config/first-run/setup.ts";
import { openToPlan } from "../config/installation/installation.ts";
import { compileUnsavedAccount } from "../config/plan/unsaved-account.ts";
import { apply } from "./apply.ts";
import { listAccountModels } from "./check-account.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, shellWord } from "./command.ts";
import { PROGRAM } from "./program-name.ts";
import { askLine, askSecret, requireTerminal } from "./questions.ts";
import { SECRET_OPTIONS } from "./secret-output.ts";
import { withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

const CONFIG_FILE = "gateway.yaml";
const ENVIRONMENT_FILE = "gateway.env";

export const init: CommandDefinition = {
  changes: "policy",
  about: `Lists the models of the account, publishes those that you choose in a group, and creates a key. It calls no model.
The credential is written to the environment file, readable only by you; gateway.yaml names its variable. Existing files are not overwritten.`,
  options: {
    config: { value: "FILE", about: `the configuration file to create (${CONFIG_FILE})` },
    "environment-file": { value: "FILE", about: `the file for the credential (${ENVIRONMENT_FILE})` },
    ...SECRET_OPTIONS,
    data: DATA_OPTION,
  },
  async run(input) {
    const configFile = input.text("config") ?? CONFIG_FILE;
    const environmentFile = input.text("environment-file") ?? ENVIRONMENT_FILE;
    requireTerminal(
      "The questions cannot be answered",
      `Write ${configFile} yourself (docs/quick-start.md has an example), then run: ${input.command("apply", configFile)}`,
    );
    for (const file of [configFile, environmentFile]) {
      if (existsSync(file))
        fail(`The file ${file} exists. Nothing was written.`, "Name other files, or move it away.");
    }
    const vendor = await askVendor(input);
    const credential = (await askSecret(`API key of ${vendor.label} (not shown): `, input)).trim();
    if (credential === "") fail("The API key is empty. Nothing was written.");
    const models = await askModels(await listProposals(input, vendor, credential), input);
    const groupName = await askLine("Group", "team");
    const document = buildSetupDocument({ vendor, accountName: vendor.id, models, groupName });
    const keyName = await askLine("Name of the first key", "first");
    const written = {
      ...document,
      accounts: document.accounts.map((one) => ({ ...one, credential: `\${${vendor.variable}}` })),
      keys: [{ name: keyName, group: groupName }],
    };
    writeNew(environmentFile, `${vendor.variable}=${quoteValue(credential)}\n`, 0o600);
    writeNew(configFile, stringify(written, { lineWidth: 0 }), 0o644);
    input.terminal.print(`Wrote ${configFile} and ${environmentFile} (mode 0600).\n`);
    const code = await applyFile(input, configFile, { [vendor.variable]: credential });
    if (code === 0) printNext(input, configFile, environmentFile);
    return code;
  },
};

async function askVendor({ terminal }: Input): Promise<SetupVendor> {
  SETUP_VENDORS.forEach(({ label }, index) => {
    terminal.printNote(`${String(index + 1).padStart(3)}  ${label}`);
  });
  const typed = await askLine("Vendor, by number or name", "1");
  const wanted = typed.toLowerCase();
  const vendor =
    SETUP_VENDORS[Number(typed) - 1] ??
    SETUP_VENDORS.find(({ id, label }) => id === wanted || label.toLowerCase() === wanted);
  return vendor ?? fail(`There is no vendor "${typed}". Nothing was written.`, "Use a number of the list.");
}

async function listProposals(
  input: Input,
  vendor: SetupVendor,
  credential: string,
): Promise<ProposedModel[]> {
  const document = { ...accountFields(vendor, vendor.id), credential };
  const account = await withInstallation(
    input,
    async (installation): Promise<PolicyAccount> => {
      const compiled = await compileUnsavedAccount(installation, document);
      if (compiled.ok && compiled.account !== null) return compiled.account;
      const problems = compiled.ok ? [] : compiled.problems;
      return fail(problems.map(({ message }) => message).join("\n"), "Nothing was written.");
    },
    openToPlan,
  );
  const listed = await listAccountModels(account);
  if (!listed.ok) fail(`The account ${listed.finding.message}. Nothing was written.`, listed.finding.todo);
  return proposeModels(listed.models, vendor, null);
}

/** Enter publishes all models that have a price. */
async function askModels(proposed: readonly ProposedModel[], { terminal }: Input): Promise<ProposedModel[]> {
  const priced = proposed.filter(({ price }) => price !== null);
  const unpriced = proposed.filter(({ price }) => price === null);
  if (proposed.length === 0) fail("The account lists no model. Nothing was written.");
  terminal.printNote(`\nWith a list price: ${priced.map(({ id }) => id).join(", ") || "none"}`);
  if (unpriced.length > 0)
    terminal.printNote(`Without a price, so free: ${unpriced.map(({ id }) => id).join(", ")}`);
  const [first] = proposed;
  const otherwise =
    priced.length > 0 ? `all ${count(priced.length, "model")} with a price` : (first?.id ?? "");
  const typed = await askLine("\nModels to publish, separated by commas", otherwise);
  if (typed === otherwise && priced.length > 0) return priced;
  const names = typed.split(",").map((name) => name.trim());
  return names.map(
    (name) =>
      proposed.find(({ id }) => id === name) ??
      fail(`The account does not list the model "${name}". Nothing was written.`),
  );
}

/** As systemd reads it: see `environment-file.ts`. */
function quoteValue(value: string): string {
  return `"${value.replaceAll(/["\\$`]/g, "\\$&")}"`;
}

/** Fails if another process has created the file since it was checked. */
function writeNew(file: string, text: string, mode: number): void {
  writeFileSync(file, text, { mode, flag: "wx" });
}

async function applyFile(input: Input, file: string, variables: Readonly<Record<string, string>>) {
  const exitCode = await apply.run({
    ...input,
    require: (name) => (name === "FILE" ? file : input.require(name)),
    environment: { ...input.environment, ...variables },
  });
  return exitCode ?? 0;
}

function printNext({ terminal, command }: Input, configFile: string, environmentFile: string): void {
  const start = command("start", "--config", configFile);
  terminal.print(
    `\nStart the gateway:\n  MODEL_GATEWAY_ENVIRONMENT_FILE=${shellWord(environmentFile)} ${start}`,
  );
  terminal.print(`The console is at /console/. ${PROGRAM} doctor checks the installation.`);
}
