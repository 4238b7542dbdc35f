/** `model-gateway directory restore`: gives people back the access that a provider took from many of them at once. */

import { restoreLostPeople } from "../console-api/sign-in/end-access.ts";
import { type CommandDefinition, DATA_OPTION, JSON_OPTION } from "./command.ts";
import { operator } from "./operator.ts";
import { printJson } from "./output.ts";
import { withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

export const restoreDirectory: CommandDefinition = {
  changes: "access",
  about:
    "Ends the suspension of the people whom the alert directory_shrinks names. Their keys work again; sessions, tokens and roles of the directory return with their next sign-in.",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const provider = input.require("PROVIDER");
      const restored = await restoreLostPeople(installation, provider, { actor: operator(), address: null });
      const { print } = input.terminal;
      if (input.flag("json")) printJson(input, { provider, ...restored });
      else if (restored.people === 0) print(`The provider ${provider} has not lost many people at once.`);
      else print(`Restored ${count(restored.people, "user")} and ${count(restored.keys, "key")}.`);
    }),
};
