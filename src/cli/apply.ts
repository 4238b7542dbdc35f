/** `model-gateway apply`: applies a configuration file. */

import { readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { type Installation, openOrCreate, openToPlan } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { applyChanges, type PlannedChanges, planChanges } from "../config/plan/apply.ts";
import { ConcurrentChangeError } from "../config/plan/concurrent-change.ts";
import { printDifference, printOutcome, reportProblems } from "./apply-output.ts";
import { applyRemotely } from "./apply-remote.ts";
import { type CommandDefinition, DATA_OPTION, fail, JSON_OPTION } from "./command.ts";
import { operator } from "./operator.ts";
import { PROGRAM } from "./program-name.ts";
import { readNamedFiles } from "./secret-files.ts";
import { chooseSecretTarget, SECRET_OPTIONS, SECRET_RULE, storeSecrets } from "./secret-output.ts";
import { isInstallationMissing, readCommandSettings, withInstallation } from "./store-access.ts";

const NO_FILE = `docs/configuration.md has an example, and \`${PROGRAM} export\` prints the current configuration.`;

export const apply: CommandDefinition = {
  changes: "policy",
  about: `Shows the changes first. Objects in the file are created or updated; objects that are not in the file stay unchanged.
A running server applies the changes without a restart. ${SECRET_RULE}
With --url, the file is applied to a gateway on another machine, with the token of a service account that has the scope config.apply. Variables are replaced here.`,
  options: {
    "dry-run": { about: "show the changes without writing them" },
    prune: {
      about: "also remove objects that are not in the file (administrators only if the file has another one)",
    },
    url: { value: "URL", about: "the address of a gateway on another machine" },
    "token-file": { value: "FILE", about: "with --url: the file with the token of a service account" },
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  async run(input) {
    const fileName = input.require("FILE");
    const source = readConfigSource(fileName, input.environment);
    if (input.text("url") !== undefined || input.text("token-file") !== undefined)
      return applyRemotely(input, source);
    const plan = (installation: Installation) =>
      planChanges(installation, source, { prune: input.flag("prune") });
    const settings = readCommandSettings(input);
    const isNew = isInstallationMissing(settings);
    const dry = input.flag("dry-run");
    if (dry || isNew) {
      // For a new installation, the plan runs on an empty store first, so that a rejected file creates nothing.
      const result = await withInstallation(input, plan, openToPlan);
      if (!result.ok) return reportProblems(result.problems, input);
      if (dry) {
        printDifference(result.plan, input);
        printOutcome(result.plan, input, null);
        return 0;
      }
    }
    return withInstallation(
      input,
      async (installation) => {
        const result = await plan(installation);
        if (!result.ok) return reportProblems(result.problems, input);
        printDifference(result.plan, input);
        const target = chooseSecretTarget(input, settings, "keys");
        await applyPlan(installation, result.plan);
        printOutcome(result.plan, input, storeSecrets(target, result.plan.shown));
        // Reported explicitly, because the folder may not be the intended one.
        if (isNew) input.terminal.printNote(`\nA new installation was created in ${settings.dataDir}.`);
        return 0;
      },
      openOrCreate,
    );
  },
};

export async function applyPlan(installation: Installation, plan: PlannedChanges): Promise<void> {
  try {
    await applyChanges(installation, plan, { actor: operator(), address: null });
  } catch (error) {
    if (error instanceof ConcurrentChangeError) fail(error.message, "Run the same command again.");
    throw error;
  }
}

/** A configuration file with the values that its `${…}` may name. */
export interface ConfigSource {
  text: string;
  fileName: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** Reads a file that the configuration names, relative to it. */
  readFile(path: string): string;
}

const NO_NAMED_FILE = "The configuration file names it. Paths are relative to the configuration file.";

export function readConfigSource(fileName: string, environment: ConfigSource["environment"]): ConfigSource {
  const text = readConfigFile(fileName, NO_FILE);
  return {
    text,
    fileName,
    environment: { ...environment, ...readNamedFiles(text, { fileName, environment }) },
    readFile: (path) => readConfigFile(resolve(dirname(fileName), path), NO_NAMED_FILE),
  };
}

/** `missing` is the hint for a missing file. */
export function readConfigFile(path: string, missing: string): string {
  try {
    const stat = statSync(path);
    if (stat.isDirectory()) fail(`${path} is a folder.`, "Use the path of the file, like gateway.yaml.");
    if (stat.size > limits.configFileBytesMax)
      fail(`${path} is larger than ${limits.configFileBytesMax} bytes.`);
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT") fail(`The file ${path} does not exist.`, missing);
    if (code === "EACCES") fail(`No permission to read ${path}.`, `Check its owner and mode: ls -l ${path}`);
    throw error;
  }
}
