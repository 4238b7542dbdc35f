/** `model-gateway schema`: prints the schema of the configuration file. */

import type { CommandDefinition } from "./command.ts";
import { printJson } from "./output.ts";
import { PROGRAM } from "./program-name.ts";

export const printSchema: CommandDefinition = {
  changes: "nothing",
  about: `An editor with a YAML language server completes and explains the fields of a file whose first line is:

  # yaml-language-server: $schema=gateway.schema.json

To write the schema: ${PROGRAM} schema > gateway.schema.json
The schema covers fields and values. \`apply --dry-run\` also checks references between the parts of the file.`,
  options: {},
  async run(input) {
    // Imported only when used: no other command needs these modules.
    const [{ buildJsonSchema }, { buildOutline }, { gatewayFile }] = await Promise.all([
      import("../config/reference/json-schema.ts"),
      import("../config/reference/outline.ts"),
      import("../config/schema/schema.ts"),
    ]);
    printJson(input, buildJsonSchema(buildOutline(gatewayFile)));
  },
};
