/** Every command changes what it declares: on the schema of its version, on an older one, and in an empty folder. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Command, EFFECTS, Failure, runCommand } from "../../src/cli/command.ts";
import { loadAllCommands } from "../../src/cli/commands.ts";
import { litellm } from "../../src/cli/import/litellm.test-support.ts";
import { writeSqlite } from "../../src/cli/import/source-tables.test-support.ts";
import { isForOperators } from "../../src/cli/store-access.ts";
import type { Terminal } from "../../src/cli/terminal.ts";
import { openDb, parseSqlitePath } from "../../src/store/engine/db.ts";
import { migrate, readSchemaVersion } from "../../src/store/engine/migrate.ts";
import { SCHEMA_KNOWN } from "../../src/store/migrations/index.ts";
import { buildNextVersion, type NextVersion } from "../support/next-version.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";

setDefaultTimeout(120_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-effects-"));
const configFile = join(folder, "gateway.yaml");
const sourceFile = join(folder, "litellm.db");
const pricesFile = join(folder, "prices.yaml");
const missingFolder = join(folder, "missing");
const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
/** Commands that never open the store of an installation; `init` does only at a terminal. Some run on other computers. */
const WITHOUT_STORE = [
  ...["completion", "init", "schema", "selftest", "simulate"],
  ...["login", "logout", "run", "setup", "token"],
];

/** Arguments with which each command would do its work on a database that has this user. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  apply: [configFile],
  export: [],
  import: ["litellm", "--from", sourceFile],
  "keys create": ["--name", "ci", "--group", "g"],
  "keys list": [],
  "keys revoke": ["aaaaaaaa"],
  "users list": [],
  "users create": ["b@example.com"],
  "users role": ["a@example.com", "admin"],
  "users disable": ["a@example.com"],
  "users enable": ["a@example.com"],
  "users password": ["a@example.com"],
  "tokens create": ["--name", "ci", "--user", "a@example.com"],
  "tokens list": [],
  "tokens revoke": ["pat_1"],
  "service-accounts create": ["ci", "--scopes", "config.apply"],
  "service-accounts list": [],
  "service-accounts token": ["ci"],
  "service-accounts revoke-tokens": ["ci"],
  "service-accounts delete": ["ci"],
  "directory restore": ["corp"],
  "wallet show": ["--user", "a@example.com"],
  "wallet top-up": ["--user", "a@example.com", "--usd", "1"],
  "wallet adjust": ["--user", "a@example.com", "--usd", "1", "--reason", "test"],
  "wallet refund": ["req_1"],
  "wallet ledger": ["--user", "a@example.com"],
  "wallet holds": [],
  "wallet charge-hold": ["req_1", "--reason", "test"],
  "wallet release-hold": ["req_1", "--reason", "test"],
  "plans list": [],
  "subscriptions list": [],
  "subscriptions grant": ["--user", "a@example.com", "--plan", "p"],
  "subscriptions cancel": ["sub_1"],
  "codes create": ["--count", "1", "--usd", "1"],
  "codes list": [],
  "codes redeem": ["CODE", "--user", "a@example.com"],
  "codes void": ["batch"],
  "admin claim": ["--email", "root@example.com"],
  "admin link": ["--email", "a@example.com"],
  "prices list": [],
  "prices update": ["--from", pricesFile],
  audit: [],
  backup: [join(folder, "backup.db")],
  "migrate-store": ["--to", "postgres://127.0.0.1:1/none"],
  explain: ["--key", "aaaaaaaa", "--model", "m"],
  doctor: [],
  "upgrade-check": [],
  nodes: [],
  "master-key rotate": [],
};

interface Outcome {
  code: number;
  text: string;
}

/** A version of the program, loaded into this process. */
interface LoadedProgram {
  readonly runCommand: typeof runCommand;
  readonly isForOperators: typeof isForOperators;
  readonly Failure: typeof Failure;
  readonly commands: readonly Command[];
}

const THIS_VERSION: LoadedProgram = {
  runCommand,
  isForOperators,
  Failure,
  commands: await loadAllCommands(),
};
let next: NextVersion;
let nextVersion: LoadedProgram;

async function loadProgram(folder: string): Promise<LoadedProgram> {
  const load = (file: string) => import(join(folder, "src/cli", file));
  const [command, access, list] = await Promise.all(
    ["command.ts", "store-access.ts", "commands.ts"].map(load),
  );
  return { ...command, ...access, commands: await list.loadAllCommands() };
}

/** Runs a command in this process. Unexpected errors are not caught. */
async function runHere(
  command: Command,
  args: readonly string[],
  { url: databaseUrl, data, program = THIS_VERSION }: { url: string; data: string; program?: LoadedProgram },
) {
  const lines: string[] = [];
  const identity = (text: string) => text;
  const terminal: Terminal = {
    print: (text = "") => void lines.push(text),
    printNote: (text) => void lines.push(text),
    paint: { bold: identity, dim: identity, red: identity, green: identity, yellow: identity },
    isInteractive: false,
  };
  const environment = { DATABASE_URL: databaseUrl, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY };
  const outcome: Outcome = { code: 1, text: "" };
  try {
    outcome.code = await program.runCommand(command, [...args, "--data", data], environment, terminal);
  } catch (error) {
    if (!program.isForOperators(error)) throw error;
    lines.push(error.message, error instanceof program.Failure ? (error.hint ?? "") : "");
  }
  outcome.text = lines.join("\n");
  return outcome;
}

/** Changes with every committed byte. */
async function fingerprint(url: string): Promise<string> {
  const path = parseSqlitePath(url);
  const hash = createHash("sha256");
  if (path !== null) {
    for (const file of [path, `${path}-wal`]) if (existsSync(file)) hash.update(readFileSync(file));
    return hash.digest("hex");
  }
  const db = await openDb(url);
  const tables = await db.sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename`;
  for (const { tablename } of tables) {
    const [row] = await db.sql.text(
      `SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) AS sum FROM ${tablename} t`,
      [],
    );
    hash.update(`${tablename} ${row?.sum}`);
  }
  await db.close();
  return hash.digest("hex");
}

const storeCommands = THIS_VERSION.commands.filter(
  ({ words }) => words !== "start" && !WITHOUT_STORE.includes(words),
);
const reading = storeCommands.filter(({ changes }) => changes === "nothing");
const find = (words: string, { commands } = THIS_VERSION) =>
  commands.find((command) => command.words === words) ?? expect.unreachable(words);

beforeAll(async () => {
  next = buildNextVersion();
  nextVersion = await loadProgram(next.program);
  await Bun.write(
    configFile,
    `
models: [{ id: m, interfaces: [chat], price: { input: "1", output: "1" } }]
accounts: [{ name: a, kind: simulator, models: { m: sim-fast } }]
groups: [{ name: g, interfaces: [chat], models: [m], accounts: [a] }]
users: [{ email: a@example.com, role: user }]
`,
  );
  writeSqlite(
    sourceFile,
    litellm({ teams: [{ team_id: "t1", team_alias: "team", models: [], blocked: false }] }),
  );
  await Bun.write(pricesFile, 'date: 2027-01-01\nmodels:\n  m: { price: { input: "2", output: "3" } }\n');
});
afterAll(() => {
  next?.remove();
  rmSync(folder, { recursive: true, force: true });
});

test("every command declares what it changes, shows it in its help, and is in this table", async () => {
  for (const command of THIS_VERSION.commands) {
    const lines: string[] = [];
    const terminal = {
      print: (text = "") => void lines.push(text),
      printNote: () => {},
      paint: {} as never,
      isInteractive: false,
    };
    await runCommand(command, ["--help"], {}, terminal);
    expect(lines.join("\n")).toContain(`Changes: ${EFFECTS[command.changes]}.`);
  }
  const known = [...Object.keys(ARGUMENTS), "migrate", "start", ...WITHOUT_STORE];
  expect(THIS_VERSION.commands.map(({ words }) => words).sort()).toEqual(known.sort());
});

test("no command but start and apply creates a file where no installation exists", async () => {
  for (const command of storeCommands) {
    const args = ARGUMENTS[command.words] ?? [];
    const url = `sqlite:${join(missingFolder, "gateway.db")}`;
    const isDry = "dry-run" in command.options;
    await runHere(command, isDry ? [...args, "--dry-run"] : args, { url, data: missingFolder });
    expect([command.words, existsSync(missingFolder)]).toEqual([command.words, false]);
  }
});

function describeEngine(engine: string, newUrl: () => Promise<string>): void {
  describe(`on ${engine}`, () => {
    const dataFolder = () => mkdtempSync(join(folder, "data-"));

    test("a command that changes nothing leaves the database of this version as it is", async () => {
      const url = await newUrl();
      const data = dataFolder();
      expect(await runHere(find("apply"), [configFile], { url, data })).toMatchObject({ code: 0 });
      const before = await fingerprint(url);
      const dry = [find("apply"), find("prices update")];
      for (const command of [...reading, ...dry]) {
        const args = [...(ARGUMENTS[command.words] ?? []), ...(dry.includes(command) ? ["--dry-run"] : [])];
        const { text } = await runHere(command, args, { url, data });
        expect([command.words, text, await fingerprint(url)]).toEqual([command.words, text, before]);
      }
      rmSync(join(folder, "backup.db"), { force: true });
    });

    test("on the database of the version before, only start and migrate change it, and a command that needs the new schema names both ways", async () => {
      const url = await newUrl();
      const data = dataFolder();
      const old = await openDb(url);
      await migrate(old);
      await old.close();
      const before = await fingerprint(url);
      const works: string[] = [];
      const target = { url, data, program: nextVersion };
      const isTested = ({ words }: Command) => storeCommands.some((command) => command.words === words);
      for (const command of nextVersion.commands.filter(isTested)) {
        if (command.words === "migrate") continue;
        const { code, text } = await runHere(command, ARGUMENTS[command.words] ?? [], target);
        if (code === 0) works.push(command.words);
        else if (command.words !== "backup") {
          expect(text).toContain(
            `The database has schema ${SCHEMA_KNOWN}, and this version needs schema ${next.schema}.`,
          );
          expect(text).toMatch(/or migrate it: .*model-gateway migrate --data/);
        }
        expect([command.words, await fingerprint(url)]).toEqual([command.words, before]);
      }
      expect(works).toEqual([...(engine === "sqlite" ? ["backup"] : []), "doctor", "upgrade-check"]);
      rmSync(join(folder, "backup.db"), { force: true });

      expect(await runHere(find("migrate", nextVersion), [], target)).toMatchObject({ code: 0 });
      const db = await openDb(url);
      expect(await readSchemaVersion(db)).toBe(next.schema);
      await db.close();
      expect(await runHere(find("keys list", nextVersion), [], target)).toMatchObject({ code: 0 });
      expect(readdirSync(data)).not.toContain("master.key");
    });
  });
}

let files = 0;
describeEngine("sqlite", async () => {
  const own = join(folder, `store-${++files}`);
  mkdirSync(own);
  return `sqlite:${join(own, "gateway.db")}`;
});

const databases: Postgres[] = [];
describeEngine("postgres", async () => {
  const database = await startPostgres();
  databases.push(database);
  return database.url;
});
afterAll(async () => {
  for (const database of databases) await database.stop();
});
