/** `model-gateway schema`: prints the schema of the configuration file. */

import type { Command } from "./command.ts";

export const printSchema: Command = {
  words: "schema",
  summary: "Print a JSON Schema of gateway.yaml, for editors",
  about: `An editor with a YAML language server completes and explains the fields of a file that begins with:

  # yaml-language-server: $schema=gateway.schema.json

if the schema was written there: npx model-gateway schema > gateway.schema.json
It knows shapes and words. What ties two places of the file together, \`apply --dry-run\` checks.`,
  options: {},
  async run({ terminal }) {
    // Imported only when used: no other command needs these modules.
    const [{ buildJsonSchema }, { buildOutline }, { gatewayFile }] = await Promise.all([
      import("../config/reference/json-schema.ts"),
      import("../config/reference/outline.ts"),
      import("../config/schema/schema.ts"),
    ]);
    terminal.print(JSON.stringify(buildJsonSchema(buildOutline(gatewayFile)), null, 2));
    return 0;
  },
};
