/** `model-gateway import`: takes over keys, people, balances and accounts of another gateway. */

import { readFileSync } from "node:fs";
import { parse as parseYaml } from "yaml";
import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { PlannedChanges } from "../../config/plan/apply.ts";
import { listNodes } from "../../store/nodes/nodes.ts";
import { VERSION } from "../../version.ts";
import { applyPlan } from "../apply.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, JSON_OPTION, misuse } from "../command.ts";
import { withInstallation } from "../store-access.ts";
import { type Imported, type ImportOptions, SOURCES, type SourceName } from "./imported.ts";
import { readLitellm } from "./litellm.ts";
import { readNewApi, readOneApi } from "./new-api.ts";
import { planImport } from "./plan-import.ts";
import { printImport } from "./print-import.ts";
import { openSource, type SourceDatabase } from "./source-database.ts";
import { readSub2api } from "./sub2api.ts";
import { bookTopUps } from "./top-ups.ts";

const READERS: Readonly<
  Record<SourceName, (source: SourceDatabase, options: ImportOptions) => Promise<Imported>>
> = {
  litellm: readLitellm,
  "new-api": readNewApi,
  "one-api": readOneApi,
  sub2api: readSub2api,
};

export const importGateway: CommandDefinition = {
  changes: "import",
  about: `SOURCE is ${SOURCES.slice(0, -1).join(", ")} or ${SOURCES.at(-1)}. Its database is only read.
Keys keep their secrets. Balances become top-ups. Entries that exist here stay unchanged, so a second run changes nothing.
A key is not created if it could do more here than in the source; the report lists every such key with the reason.
Try it with --dry-run first. docs/migrate-from.md describes what is carried over.`,
  options: {
    from: {
      value: "DATABASE",
      about: "a postgres:// or mysql:// address, or a SQLite file; - reads it from IMPORT_DATABASE_URL",
      required: true,
    },
    "dry-run": { about: "show the changes without writing them" },
    "address-domain": { value: "DOMAIN", about: "gives users without an e-mail address name@DOMAIN" },
    group: { value: "NAME", about: "the group of keys that have none in the source (imported)" },
    prefix: { value: "TEXT", about: "stands before the names of imported groups and accounts" },
    config: { value: "FILE", about: "LiteLLM: its config.yaml, for the models in it" },
    "salt-key-file": {
      value: "FILE",
      about: "LiteLLM: a file with LITELLM_SALT_KEY, or with the master key if that is not set",
    },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  async run(input) {
    const source = requireSource(input);
    const imported = await readSource(input, source);
    return withInstallation(input, async (installation) => {
      const plan = await planImport(installation, imported, { source, prefix: input.text("prefix") ?? "" });
      printImport(plan, input);
      if (input.flag("dry-run") || plan.isEmpty) return;
      await requireSameVersion(installation, plan.plan);
      await applyPlan(installation, plan.plan);
      await bookTopUps(installation, source, plan.topUps);
      if (!input.flag("json")) input.terminal.print("\nImported.");
    });
  },
};

function requireSource(input: Input): SourceName {
  const wanted = input.require("SOURCE");
  const source = SOURCES.find((name) => name === wanted);
  return source ?? misuse(`"${wanted}" cannot be imported.`, `SOURCE is one of ${SOURCES.join(", ")}.`);
}

async function readSource(input: Input, source: SourceName): Promise<Imported> {
  const from = input.require("from");
  // A command line is visible to other users of the machine, and the address may contain a password.
  const address = from === "-" ? input.environment.IMPORT_DATABASE_URL : from;
  if (!address) misuse("IMPORT_DATABASE_URL is not set.", "Set it, or pass the address with --from.");
  const config = input.text("config");
  const saltKeyFile = input.text("salt-key-file");
  const options: ImportOptions = {
    addressDomain: input.text("address-domain") ?? null,
    group: input.text("group") ?? "imported",
    litellm: {
      config: config === undefined ? null : parseConfig(config),
      saltKey: saltKeyFile === undefined ? null : readSmallFile(saltKeyFile).trim(),
    },
    environment: input.environment,
    nowMs: Date.now(),
  };
  const database = await openSource(address);
  try {
    return await READERS[source](database, options);
  } finally {
    await database.close();
  }
}

function parseConfig(file: string): unknown {
  const text = readSmallFile(file);
  try {
    return parseYaml(text, { maxAliasCount: 100 });
  } catch {
    return fail(`${file} is not valid YAML.`);
  }
}

function readSmallFile(path: string): string {
  const file = Bun.file(path);
  if (file.size > limits.configFileBytesMax)
    fail(`${path} is larger than ${limits.configFileBytesMax} bytes.`);
  try {
    return readFileSync(path, "utf8");
  } catch {
    return fail(`${path} cannot be read.`, "Check that the file exists and that you may read it.");
  }
}

/** A node of another version may not know keys that have only a hash of their secret, and would reject them. */
async function requireSameVersion({ db, clock }: Installation, { file }: PlannedChanges): Promise<void> {
  if (file.keys.length === 0) return;
  const other = (await listNodes(db, clock)).find(({ version }) => version !== VERSION);
  if (other !== undefined)
    fail(
      `A node of another version (${other.version ?? "unknown"}) is running. No changes were written.`,
      "Finish the upgrade of all nodes, then import.",
    );
}
