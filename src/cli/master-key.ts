/** `model-gateway master-key rotate`: rotates the master key. */

import { addMasterKey, dropOldMasterKeys } from "../secrets/keyring.ts";
import { rewrapSecrets } from "../store/settings/rotate.ts";
import { type CommandDefinition, DATA_OPTION, misuse } from "./command.ts";
import { runLogged } from "./operator.ts";
import { withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

export const rotateMasterKey: CommandDefinition = {
  changes: "secrets",
  about: `A running server uses the new key without a restart. The old key is kept, because existing backups need it;
--drop-old removes it. If MODEL_GATEWAY_MASTER_KEY is set, put the new key and a comma before the old one in it, restart,
and run this command.`,
  options: { "drop-old": { about: "remove the old master keys afterwards" }, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { keyring, settings } = installation;
      const { print } = input.terminal;
      const inFile = !input.environment.MODEL_GATEWAY_MASTER_KEY;
      if (!inFile && input.flag("drop-old")) {
        misuse(
          "--drop-old works only with a master key file.",
          "Remove the old key from MODEL_GATEWAY_MASTER_KEY.",
        );
      }
      if (inFile) addMasterKey(settings.masterKeyFile);
      const changed = await runLogged(
        installation,
        (txInstallation) => rewrapSecrets(txInstallation.db, keyring),
        (many) => ({
          action: "master_key.rotate",
          target: "master key",
          changes: [
            { field: "key", from: null, to: keyring.activeKid },
            { field: "secrets", from: null, to: String(many) },
            ...(input.flag("drop-old") ? [{ field: "old_keys", from: "kept", to: "forgotten" }] : []),
          ],
        }),
      );
      print(`${count(changed, "secret")} encrypted with master key ${keyring.activeKid}.`);
      if (input.flag("drop-old")) {
        const dropped = dropOldMasterKeys(settings.masterKeyFile);
        print(
          `${count(dropped, "old master key")} removed. Older backups cannot be decrypted without ${dropped === 1 ? "it" : "them"}.`,
        );
      } else if (inFile) {
        print(`Old keys stay in ${settings.masterKeyFile} for older backups; --drop-old removes them.`);
      }
      print("Back up the master key separately from the database.");
    }),
};
