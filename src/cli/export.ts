/** `model-gateway export`: prints the current configuration as a file. */

import { exportFile } from "../config/export/export.ts";
import { type CommandDefinition, DATA_OPTION } from "./command.ts";
import { withInstallation } from "./store-access.ts";

export const exportState: CommandDefinition = {
  changes: "nothing",
  about: "Applying the output to the same installation changes nothing: omitted secrets are kept.",
  options: { data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      input.terminal.print((await exportFile(db)).trimEnd());
    }),
};
