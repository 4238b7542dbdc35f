/** `model-gateway export`: prints the current configuration as a file. */

import { exportFile } from "../config/export/export.ts";
import { type Command, DATA_OPTION } from "./command.ts";
import { withInstallation } from "./store-access.ts";

export const exportState: Command = {
  words: "export",
  summary: "Print the current configuration as gateway.yaml, without secrets",
  changes: "nothing",
  about: "Applying the output to the same installation changes nothing: omitted secrets are kept.",
  options: { data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      input.terminal.print((await exportFile(db)).trimEnd());
    }),
};
