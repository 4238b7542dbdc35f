/** `model-gateway backup`: copies a SQLite database while the server runs. */

import { resolve } from "node:path";
import { canCopyStore, copyStore } from "../store/engine/backup.ts";
import { type CommandDefinition, DATA_OPTION, fail } from "./command.ts";
import { PROGRAM } from "./program-name.ts";
import { withStore } from "./store-access.ts";

export const backUp: CommandDefinition = {
  changes: "nothing",
  about: `Works on the database of an earlier version too. For SQLite; with PostgreSQL use pg_dump. The backup does not include the master key: back it up separately.
To restore, stop the server, replace gateway.db with the backup, remove gateway.db-wal and gateway.db-shm,
start the server, and run \`${PROGRAM} audit\`.`,
  options: { data: DATA_OPTION },
  run: (input) =>
    withStore(input, async (db, settings) => {
      if (!canCopyStore(db))
        fail("The database is PostgreSQL, which this command does not support.", "Back it up with pg_dump.");
      const file = resolve(input.require("FILE"));
      const { bytes } = await copyStore(db, file).catch((error: unknown) => {
        const code = error instanceof Error && "code" in error ? error.code : null;
        if (code === "EEXIST") fail(`${file} already exists.`, "Choose a file that does not exist.");
        if (code === "ENOENT") fail(`The folder of ${file} does not exist.`);
        if (code === "EACCES") fail(`No permission to write ${file}.`);
        throw error;
      });
      const { print } = input.terminal;
      print(`${file}: ${(bytes / 1e6).toFixed(1)} MB, readable only by you.`);
      print(
        input.environment.MODEL_GATEWAY_MASTER_KEY
          ? "Back up MODEL_GATEWAY_MASTER_KEY separately: without it the credentials in the backup cannot be decrypted."
          : `Back up ${settings.masterKeyFile} separately: without it the credentials in the backup cannot be decrypted.`,
      );
    }),
};
