/** `model-gateway doctor`: checks configuration, store and every account. */

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { readSettings, type Settings } from "../config/installation/environment.ts";
import { hasStore } from "../config/installation/installation.ts";
import { NOTHING_KNOWN } from "../config/parse/check.ts";
import { parseGatewayFile } from "../config/parse/file.ts";
import { limits } from "../config/product-limits.ts";
import { formatProblem } from "../config/state/problem.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import { openDialer } from "../net/http-client/dial.ts";
import { systemClock } from "../net/wire/clock.ts";
import { openDeadlines } from "../net/wire/deadlines.ts";
import type { PolicyRecords } from "../records.ts";
import { type Keyring, openKeyring } from "../secrets/keyring.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { changesAhead, migrate } from "../store/engine/migrate.ts";
import { canAdministratorSignIn, listUsers } from "../store/identity/users.ts";
import { listPlans } from "../store/money/plans.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { loadPepper } from "../store/settings/pepper.ts";
import { readRegistration } from "../store/settings/registration.ts";
import { NO_FILE, readConfigFile } from "./apply.ts";
import { checkAccount } from "./check-account.ts";
import { checkSocket } from "./check-socket.ts";
import { type Command, DATA_OPTION, Failure, type Input, JSON_OPTION } from "./command.ts";
import { checkGroups, checkOpenAccess, openAccounts } from "./doctor-policy.ts";
import type { Finding } from "./finding.ts";
import { isForOperators, storeFailure } from "./store-access.ts";
import { count, type Terminal } from "./terminal.ts";

export const doctor: Command = {
  words: "doctor",
  summary: "Check configuration, store and every account, and say what to do",
  about:
    "Changes nothing. Each enabled account is asked for its list of models. Exits with 1 when something is broken.",
  options: {
    config: { value: "FILE", about: "also check this configuration file" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  async run(input) {
    const findings: Finding[] = [];
    const live = !input.flag("json");
    // Printed as they arrive, so that a hanging account does not hide earlier findings.
    const report = (...found: Finding[]) => {
      findings.push(...found);
      if (live) for (const finding of found) print(finding, input.terminal);
    };
    await examine(input, report);
    const broken = findings.filter(({ state }) => state === "broken").length;
    if (!live) input.terminal.print(JSON.stringify({ ok: broken === 0, findings }, null, 2));
    else input.terminal.print(broken === 0 ? "\nNothing is broken." : `\n${count(broken, "thing")} to mend.`);
    return broken === 0 ? 0 : 1;
  },
};

type Report = (...findings: Finding[]) => void;

async function examine(input: Input, report: Report): Promise<void> {
  const result = readSettings({ flags: { data: input.text("data") }, environment: input.environment });
  if (!result.ok) {
    for (const problem of result.problems)
      report(bad("settings", problem, "Correct the variable or the flag."));
    return;
  }
  const { settings } = result;
  report(checkFolder(settings));
  const keyring = checkMasterKey(settings, input, report);
  const db = await checkStore(settings, keyring, report);
  try {
    const records: PolicyRecords | null = db === null ? null : await readPolicy(db);
    const config = input.text("config");
    if (config !== undefined) report(...(await checkConfig(config, input, db, records)));
    if (db === null || records === null || keyring === null) return;
    const { accounts, findings } = openAccounts(records, keyring);
    report(...findings, ...checkGroups(records));
    report(...checkOpenAccess(records.groups, await readRegistration(db)));
    report(await checkAdministrator(db, input));
    const dialer = openDialer({
      clock: systemClock,
      lookupTimeoutMs: limits.lookupTimeoutMs,
      cacheMs: limits.addressCacheMs,
    });
    const alarms = openDeadlines(limits.alarmsMs, systemClock);
    const http = openHttpClient({
      alarms,
      clock: systemClock,
      connectTimeoutMs: limits.connectTimeoutMs,
      idleMs: limits.upstreamIdleMs,
      idlePerOriginMax: 0,
      headBytesMax: limits.upstreamHeadBytesMax,
    });
    await Promise.all(
      accounts.map(async (account) => {
        report(await checkAccount(account, dialer, http));
        const socket = account.websocket ? await checkSocket(account, dialer, alarms) : null;
        if (socket !== null) report(socket);
      }),
    );
    http.close();
    alarms.stop();
  } finally {
    await db?.close();
  }
}

async function checkAdministrator(db: Db, input: Input): Promise<Finding> {
  const what = "administrator";
  if (await canAdministratorSignIn(db)) return good(what, "can sign in");
  const admin = (await listUsers(db)).find(({ role, status }) => role === "admin" && status === "active");
  const link = "The start-up text of each start has a link to become the administrator";
  return admin === undefined
    ? doubt(what, "is not there yet", `${link}.`)
    : doubt(
        what,
        `${admin.email} has no password, so nobody can sign in to run the place`,
        `${link}. While the gateway runs: ${input.command("admin link", "--email", admin.email, "--for", "reset")}`,
      );
}

function checkFolder({ dataDir }: Settings): Finding {
  const what = "data folder";
  if (!existsSync(dataDir))
    return doubt(what, `${dataDir} is not there yet`, "The first start makes it: npx model-gateway start");
  const stat = statSync(dataDir);
  if (!stat.isDirectory()) return bad(what, `${dataDir} is not a folder`, "Name another one with --data.");
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return bad(what, `${dataDir} cannot be written by you`, "Run as its owner, or change its owner.");
  }
  const mode = stat.mode & 0o777;
  if ((mode & 0o077) !== 0) {
    return doubt(
      what,
      `${dataDir} is open to other users of this machine (mode ${mode.toString(8)})`,
      `chmod 700 ${dataDir}`,
    );
  }
  return good(what, dataDir);
}

/** Creates no master key, unlike the first start: a new key in place of a missing one would only hide the loss. */
function checkMasterKey(settings: Settings, input: Input, report: Report): Keyring | null {
  const what = "master key";
  const fromEnv = input.environment.MODEL_GATEWAY_MASTER_KEY || undefined;
  if (fromEnv === undefined && !existsSync(settings.masterKeyFile)) {
    const isSealed = settings.databaseUrl.startsWith("sqlite:") && hasStore(settings);
    report(
      isSealed
        ? bad(
            what,
            `${settings.masterKeyFile} is missing, and the store is sealed with it`,
            "Restore it from its backup: a new one would open nothing.",
          )
        : doubt(
            what,
            `${settings.masterKeyFile} is not there yet`,
            "The first start makes it. If there was one, restore it from its backup.",
          ),
    );
    return null;
  }
  try {
    const keyring = openKeyring({ file: settings.masterKeyFile, fromEnv });
    report(
      good(
        what,
        `key ${keyring.activeKid} from ${fromEnv === undefined ? settings.masterKeyFile : "MODEL_GATEWAY_MASTER_KEY"}`,
      ),
    );
    return keyring;
  } catch (error) {
    report(
      bad(
        what,
        isForOperators(error) ? error.message : "cannot be read",
        "Restore it from its backup, or mend its permissions.",
      ),
    );
    return null;
  }
}

/** Thrown to roll back the trial. */
class RollBackTrial extends Error {}

async function checkStore(settings: Settings, keyring: Keyring | null, report: Report): Promise<Db | null> {
  const what = "store";
  const { databaseUrl } = settings;
  const isFile = databaseUrl.startsWith("sqlite:");
  if (isFile && !existsSync(databaseUrl.slice("sqlite:".length))) {
    report(doubt(what, "there is no database yet", "The first start makes it: npx model-gateway start"));
    return null;
  }
  let db: Db | null = null;
  try {
    db = await openDb(databaseUrl);
    const ahead = await changesAhead(db);
    const { from, to } = await trialOpening(db, keyring, ahead);
    if (from < to) {
      report(
        doubt(
          what,
          `has schema ${from}, this version needs ${to}`,
          ["The next start brings it up to date.", ...(ahead?.takes ?? []), "Make a backup before."].join(
            " ",
          ),
        ),
      );
      await db.close();
      return null;
    }
    report(good(what, `${isFile ? "SQLite" : "PostgreSQL"}, schema ${to}`));
    return db;
  } catch (error) {
    if (isForOperators(error))
      report(bad(what, error.message, "Restore what is missing, then run this again."));
    else report(bad(what, ...storeFailure(settings, error)));
    await db?.close();
    return null;
  }
}

/**
 * Does what a start would do, and rolls it back. Pending migrations are skipped: on a large store they would take
 * long and block other writers.
 */
async function trialOpening(
  db: Db,
  keyring: Keyring | null,
  ahead: { from: number; to: number } | null,
): Promise<{ from: number; to: number }> {
  let outcome = { from: 0, to: 0 };
  try {
    await db.begin("write", async (tx) => {
      outcome = ahead ?? (await migrate(tx));
      if (keyring !== null) await loadPepper(tx, keyring);
      throw new RollBackTrial();
    });
  } catch (error) {
    if (!(error instanceof RollBackTrial)) throw error;
  }
  return outcome;
}

async function checkConfig(
  fileName: string,
  input: Input,
  db: Db | null,
  records: PolicyRecords | null,
): Promise<Finding[]> {
  let text: string;
  try {
    text = readConfigFile(fileName, NO_FILE);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return [bad("configuration", error.message, error.hint ?? "Name another file.")];
  }
  const known =
    db === null || records === null
      ? NOTHING_KNOWN
      : {
          models: new Set(records.models.map(({ id }) => id)),
          accounts: new Set(records.accounts.map(({ name }) => name)),
          groups: new Set(records.groups.map(({ name }) => name)),
          plans: new Set((await listPlans(db)).map(({ name }) => name)),
          users: new Set((await listUsers(db)).map(({ email }) => email.toLowerCase())),
        };
  const parsed = parseGatewayFile(text, { fileName, environment: input.environment, known });
  if (parsed.ok) return [good("configuration", `${fileName} is right`)];
  return parsed.problems.map((problem) => bad("configuration", formatProblem(problem), null));
}

function good(what: string, says: string): Finding {
  return { what, state: "good", says, todo: null };
}

function doubt(what: string, says: string, todo: string): Finding {
  return { what, state: "doubtful", says, todo };
}

function bad(what: string, says: string, todo: string | null): Finding {
  return { what, state: "broken", says, todo };
}

function print({ what, state, says, todo }: Finding, { print: line, paint }: Terminal): void {
  const mark = { good: paint.green("✓"), doubtful: paint.yellow("!"), broken: paint.red("✗") }[state];
  line(`${mark} ${paint.bold(what)}  ${says}`);
  if (todo !== null) line(`    ${todo}`);
}
