/** `model-gateway doctor`: checks configuration, store and every account. */

import { accessSync, constants, existsSync, type Stats, statSync } from "node:fs";
import { readSettings, type Settings } from "../config/installation/environment.ts";
import { hasStore } from "../config/installation/installation.ts";
import { parseGatewayFile } from "../config/parse/file.ts";
import { NO_KNOWN_NAMES, readKnownNames } from "../config/parse/references.ts";
import { formatProblem } from "../config/state/problem.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { type Keyring, openKeyring } from "../secrets/keyring.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { isStandby } from "../store/engine/dialect.ts";
import { changesAhead, hasVersions, readSchemaVersion } from "../store/engine/migrate.ts";
import { findMove } from "../store/engine/moved-store.ts";
import { canAdministratorSignIn, listUsers } from "../store/identity/users.ts";
import { listPlans } from "../store/money/plans.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { readPepper } from "../store/settings/pepper.ts";
import { readRegistration } from "../store/settings/registration.ts";
import { type ConfigSource, readConfigSource } from "./apply.ts";
import { checkAccount, withConnections } from "./check-account.ts";
import { checkLiveness } from "./check-liveness.ts";
import { checkSocket } from "./check-socket.ts";
import { type CommandDefinition, DATA_OPTION, Failure, type Input, JSON_OPTION } from "./command.ts";
import { checkNodes, checkNotifications, checkRedis, checkSetAsideHolds } from "./doctor-nodes.ts";
import { checkGroups, checkNetworks, checkOpenAccess, openAccounts } from "./doctor-policy.ts";
import { checkProcesses } from "./doctor-processes.ts";
import { checkSignIn } from "./doctor-sign-in.ts";
import { checkToolSignIn } from "./doctor-tools.ts";
import { type Finding, failed, passed, printFinding, warned } from "./finding.ts";
import { PROGRAM } from "./program-name.ts";
import { isForOperators, moveHint, readCommandSettings, storeFailure } from "./store-access.ts";
import { count } from "./terminal.ts";

export const doctor: CommandDefinition = {
  changes: "nothing",
  about: `Does not change any data. Lists the models of each enabled account. Exits with 1 if a check fails.
With --live it only checks that the server of this data folder answers, as the health check of a container does.`,
  options: {
    config: { value: "FILE", about: "also check this configuration file" },
    live: { about: "only check that the server answers" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  async run(input) {
    const findings: Finding[] = [];
    const live = !input.flag("json");
    // Printed as they arrive, so that a hanging account does not hide earlier findings.
    const report = (...found: Finding[]) => {
      findings.push(...found);
      if (live) for (const finding of found) printFinding(finding, input.terminal);
    };
    if (input.flag("live")) report(await checkLiveness(readCommandSettings(input)));
    else await runChecks(input, report);
    const broken = findings.filter(({ state }) => state === "broken").length;
    if (!live) input.terminal.print(JSON.stringify({ ok: broken === 0, findings }, null, 2));
    else input.terminal.print(`\n${summarize(findings)}`);
    return broken === 0 ? 0 : 1;
  },
};

/** An installation that was not found must not pass for one without errors. */
function summarize(findings: readonly Finding[]): string {
  const broken = findings.filter(({ state }) => state === "broken").length;
  if (broken > 0) return `${count(broken, "check")} failed.`;
  return findings.some(({ message }) => message === NO_DATABASE)
    ? "No errors found, but there is no installation to check."
    : "No errors found.";
}

const NO_DATABASE = "the database does not exist yet";

type Report = (...findings: Finding[]) => void;

async function runChecks(input: Input, report: Report): Promise<void> {
  const result = readSettings({ flags: { data: input.text("data") }, environment: input.environment });
  if (!result.ok) {
    for (const problem of result.problems)
      report(failed("settings", problem, "Correct the variable or the flag."));
    return;
  }
  const { settings } = result;
  const folder = checkFolder(settings);
  report(folder);
  // Nothing in the folder can be read.
  if (folder.state === "broken") return;
  report(...checkProcesses(settings));
  const keyring = checkMasterKey(settings, input, report);
  const db = await checkStore(settings, keyring, report);
  try {
    const records: PolicyRecords | null = db === null ? null : await readPolicy(db);
    const config = input.text("config");
    if (config !== undefined) report(...(await checkConfig(config, input, db, records)));
    if (db === null || records === null || keyring === null) return;
    const { accounts, findings } = openAccounts(records, keyring);
    report(...findings, ...checkGroups(records));
    report(...checkNetworks(records, settings.publicUrl));
    report(...checkOpenAccess(records.groups, await readRegistration(db)));
    report(await checkAdministrator(db, input));
    await withConnections(async ({ dialer, http, deadlines }) => {
      report(...(await checkSignIn({ db, keyring, settings, connections: { dialer, http } })));
      report(...(await checkToolSignIn(db, settings)));
      await Promise.all(
        accounts.map(async (account) => {
          report(await checkAccount(account, dialer, http));
          const socket = account.websocket ? await checkSocket(account, dialer, deadlines) : null;
          if (socket !== null) report(socket);
        }),
      );
    });
  } finally {
    await db?.close();
  }
}

async function checkAdministrator(db: Db, input: Input): Promise<Finding> {
  const what = "administrator";
  if (await canAdministratorSignIn(db)) return passed(what, "can sign in");
  const admin = (await listUsers(db)).find(({ role, status }) => role === "admin" && status === "active");
  const link = "Each start of the gateway prints a link to create the administrator";
  return admin === undefined
    ? warned(what, "does not exist yet", `${link}.`)
    : warned(
        what,
        `${admin.email} has no password, so no administrator can sign in`,
        `${link}. While the gateway runs: ${input.command("admin link", "--email", admin.email, "--for", "reset")}`,
      );
}

const AS_OWNER = "Run the command as the owner of the folder, or as root.";

/** Null if the path does not exist. */
function readStat(path: string): Stats | "forbidden" | null {
  try {
    return statSync(path);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT") return null;
    if (code === "EACCES" || code === "EPERM") return "forbidden";
    throw error;
  }
}

function checkFolder({ dataDir }: Settings): Finding {
  const what = "data folder";
  const stat = readStat(dataDir);
  if (stat === "forbidden") return failed(what, `No permission to read ${dataDir}`, AS_OWNER);
  if (stat === null)
    return warned(
      what,
      `No installation exists in ${dataDir}`,
      `Set the data folder with --data or MODEL_GATEWAY_DATA. The first start creates it: ${PROGRAM} start`,
    );
  if (!stat.isDirectory())
    return failed(what, `${dataDir} is not a folder`, "Choose another folder with --data.");
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return failed(what, `No permission to read and write ${dataDir}`, AS_OWNER);
  }
  const mode = stat.mode & 0o777;
  if ((mode & 0o077) !== 0) {
    return warned(
      what,
      `${dataDir} is readable by other users of this machine (mode ${mode.toString(8)})`,
      `chmod 700 ${dataDir}`,
    );
  }
  return passed(what, dataDir);
}

/** Creates no master key, unlike the first start: a new key in place of a missing one would only hide the loss. */
function checkMasterKey(settings: Settings, input: Input, report: Report): Keyring | null {
  const what = "master key";
  const fromEnv = input.environment.MODEL_GATEWAY_MASTER_KEY || undefined;
  if (fromEnv === undefined && !existsSync(settings.masterKeyFile)) {
    const isSealed = settings.databaseUrl.startsWith("sqlite:") && hasStore(settings);
    report(
      isSealed
        ? failed(
            what,
            `${settings.masterKeyFile} is missing, and the database has secrets encrypted with it`,
            "Restore it from its backup: a new key cannot decrypt them.",
          )
        : warned(
            what,
            `${settings.masterKeyFile} does not exist yet`,
            "The first start creates it. If it existed before, restore it from its backup.",
          ),
    );
    return null;
  }
  try {
    const keyring = openKeyring({ file: settings.masterKeyFile, fromEnv });
    report(
      passed(
        what,
        `key ${keyring.activeKid} from ${fromEnv === undefined ? settings.masterKeyFile : "MODEL_GATEWAY_MASTER_KEY"}`,
      ),
    );
    return keyring;
  } catch (error) {
    report(
      failed(
        what,
        isForOperators(error) ? error.message : "cannot be read",
        "Restore it from its backup, or correct its permissions.",
      ),
    );
    return null;
  }
}

async function checkStore(settings: Settings, keyring: Keyring | null, report: Report): Promise<Db | null> {
  const what = "store";
  const { databaseUrl } = settings;
  const isFile = databaseUrl.startsWith("sqlite:");
  if (isFile && !existsSync(databaseUrl.slice("sqlite:".length))) {
    report(warned(what, NO_DATABASE, `The first start creates it: ${PROGRAM} start`));
    return null;
  }
  let db: Db | null = null;
  try {
    db = await openDb(databaseUrl, { workload: "maintenance", access: "read" });
    const doubt = await findStoreDoubt(db);
    if (doubt !== null) {
      report(doubt);
      await db.close();
      return null;
    }
    // Fails if the secrets were sealed with another master key.
    if (keyring !== null) await readPepper(db, keyring);
    report(passed(what, `${isFile ? "SQLite" : "PostgreSQL"}, schema ${await readSchemaVersion(db)}`));
    report(...(await checkNodes(db)), ...(await checkSetAsideHolds(db)));
    if (!isFile) report(...(await checkNotifications(settings.databaseListenUrl)));
    if (settings.redisUrl !== null) report(await checkRedis(settings.redisUrl));
    return db;
  } catch (error) {
    if (isForOperators(error))
      report(failed(what, error.message, "Restore the missing data, then run the command again."));
    else report(failed(what, ...storeFailure(settings, error)));
    await db?.close();
    return null;
  }
}

/** What the next start would do to the store before it can be read. */
async function findStoreDoubt(db: Db): Promise<Finding | null> {
  const what = "store";
  if (await isStandby(db))
    return failed(
      what,
      "the server is a standby, which rejects every write",
      "Use the address of the primary.",
    );
  if (!(await hasVersions(db)))
    return warned(what, "the database is empty", `The first start initializes it: ${PROGRAM} start`);
  const moved = await findMove(db);
  if (moved !== null) return failed(what, moved.message, moveHint(moved));
  const ahead = await changesAhead(db);
  if (ahead === null) return null;
  return warned(
    what,
    `has schema ${ahead.from}, this version needs ${ahead.to}`,
    ["The next start migrates it.", ...ahead.takes, "Back it up first."].join(" "),
  );
}

async function checkConfig(
  fileName: string,
  input: Input,
  db: Db | null,
  records: PolicyRecords | null,
): Promise<Finding[]> {
  let source: ConfigSource;
  try {
    source = readConfigSource(fileName, input.environment);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return [failed("configuration", error.message, error.hint ?? "Choose another file.")];
  }
  const known =
    db === null || records === null
      ? NO_KNOWN_NAMES
      : readKnownNames({
          requestPolicies: [],
          ...records,
          plans: await listPlans(db),
          users: await listUsers(db),
        });
  const parsed = parseGatewayFile(source.text, { ...source, known });
  if (parsed.ok) return [passed("configuration", `${fileName} is valid`)];
  return parsed.problems.map((problem) => failed("configuration", formatProblem(problem), null));
}
