/** `model-gateway backup`: copies a SQLite database while the server runs. */

import { resolve } from "node:path";
import { copyStore } from "../store/engine/backup.ts";
import { type Command, DATA_OPTION, fail } from "./command.ts";
import { withInstallation } from "./store-access.ts";

export const backUp: Command = {
  words: "backup",
  summary: "Copy the database as of this moment, while the server runs",
  about: `For SQLite; with PostgreSQL use pg_dump. The copy holds no master key: keep that apart from it.
To restore, stop the server, put the copy in the place of gateway.db, remove gateway.db-wal and gateway.db-shm,
start again, and run \`npx model-gateway audit\`.`,
  positionals: ["FILE"],
  options: { data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, settings }) => {
      if (db.engine !== "sqlite") fail("The store is PostgreSQL.", "Back it up with pg_dump.");
      const file = resolve(input.need("FILE"));
      const { bytes } = await copyStore(db, file).catch((error: unknown) => {
        const code = error instanceof Error && "code" in error ? error.code : null;
        if (code === "EEXIST") fail(`${file} is there already.`, "Name a file that does not exist yet.");
        if (code === "ENOENT") fail(`The folder of ${file} does not exist.`);
        if (code === "EACCES") fail(`${file} may not be written.`);
        throw error;
      });
      const { print } = input.terminal;
      print(`${file}: ${(bytes / 1e6).toFixed(1)} MB, readable by you alone.`);
      print(
        input.environment.MODEL_GATEWAY_MASTER_KEY
          ? "Keep MODEL_GATEWAY_MASTER_KEY somewhere else: without it the credentials inside cannot be read."
          : `Copy ${settings.masterKeyFile} somewhere else: without it the credentials inside cannot be read.`,
      );
      return 0;
    }),
};
