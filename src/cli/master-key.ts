/** `model-gateway master-key rotate`: rotates the master key. */

import { addMasterKey, dropOldMasterKeys } from "../secrets/keyring.ts";
import { rewrapSecrets } from "../store/settings/rotate.ts";
import { type Command, DATA_OPTION, misuse } from "./command.ts";
import { audited } from "./operator.ts";
import { withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

export const rotateMasterKey: Command = {
  words: "master-key rotate",
  summary: "Seal every stored secret with a new master key",
  about: `A running server takes the new key up by itself. The old one is kept, because backups made before need it;
--drop-old forgets it. With MODEL_GATEWAY_MASTER_KEY set, put the new key first in it, restart, and run this.`,
  options: { "drop-old": { about: "forget the old master keys afterwards" }, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { keyring, settings } = installation;
      const { print } = input.terminal;
      const inFile = !input.environment.MODEL_GATEWAY_MASTER_KEY;
      if (!inFile && input.flag("drop-old")) {
        misuse(
          "--drop-old is for a master key in a file.",
          "Remove the old key from MODEL_GATEWAY_MASTER_KEY yourself.",
        );
      }
      if (inFile) addMasterKey(settings.masterKeyFile);
      const changed = await audited(
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
      print(`${count(changed, "secret")} sealed with master key ${keyring.activeKid}.`);
      if (input.flag("drop-old")) {
        const dropped = dropOldMasterKeys(settings.masterKeyFile);
        print(
          `${count(dropped, "old master key")} forgotten. Backups made before cannot be read without ${dropped === 1 ? "it" : "them"}.`,
        );
      } else if (inFile) {
        print(`Old keys stay in ${settings.masterKeyFile} for backups; --drop-old forgets them.`);
      }
      print("Back the master key up, apart from the database.");
      return 0;
    }),
};
