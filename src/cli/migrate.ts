/** `model-gateway migrate`: migrates the database without starting a server. */

import { openInstallation } from "../config/installation/installation.ts";
import { parseSqlitePath } from "../store/engine/db.ts";
import { changesAhead } from "../store/engine/migrate.ts";
import { type CommandDefinition, DATA_OPTION, JSON_OPTION } from "./command.ts";
import { lockDataFolder } from "./folder-in-use.ts";
import { printJson } from "./output.ts";
import { readCommandSettings, withInstallation, withStore } from "./store-access.ts";

export const migrateSchema: CommandDefinition = {
  changes: "schema",
  about: `\`start\` does the same before it listens. No other command changes a schema. With SQLite, stop the server first.
With PostgreSQL, nodes of the earlier version may run, unless \`upgrade-check\` reports that they have to be stopped.`,
  options: { json: JSON_OPTION, data: DATA_OPTION },
  async run(input) {
    const settings = readCommandSettings(input);
    const ahead = await withStore(input, (db) => changesAhead(db));
    const { print } = input.terminal;
    if (ahead !== null) {
      const lock = parseSqlitePath(settings.databaseUrl) === null ? null : lockDataFolder(settings);
      try {
        await withInstallation(input, async () => {}, openInstallation);
      } finally {
        lock?.release();
      }
    }
    if (input.flag("json")) printJson(input, { migrated: ahead !== null, schema: ahead });
    else if (ahead === null) print("The database already has the schema of this version.");
    else print(`The database now has schema ${ahead.to}.`);
  },
};
