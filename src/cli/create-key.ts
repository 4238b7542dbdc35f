/** `model-gateway keys create`. */

import { mapKinds } from "../base/map-kinds.ts";
import { instantText } from "../base/time.ts";
import type { Installation } from "../config/installation/installation.ts";
import { NO_PAYER } from "../config/parse/check-charging.ts";
import { hasChargingStep } from "../config/parse/check-fallback.ts";
import { newKey } from "../config/plan/plan-keys.ts";
import { isName, NAME_RULE } from "../config/schema/basic-values.ts";
import { limitsToFile } from "../config/schema/usage-limits.ts";
import { createdFields } from "../config/state/difference.ts";
import { formatKey } from "../config/state/to-file-shape.ts";
import type { KeyFallback } from "../records/fallback.ts";
import { keyTitle } from "../records/key.ts";
import { type CallerLimits, describeRate, NO_LIMITS, RATE_KINDS } from "../records/limits.ts";
import { listGroups } from "../store/policy/groups.ts";
import { insertKey, listKeys } from "../store/policy/keys.ts";
import { listModels } from "../store/policy/models.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, JSON_OPTION, misuse } from "./command.ts";
import { EXPIRES_OPTION, instantFrom } from "./instants.ts";
import { runLogged } from "./operator.ts";
import { printJson } from "./output.ts";
import {
  chooseSecretTarget,
  SECRET_OPTIONS,
  SECRET_RULE,
  secretFileText,
  storeSecrets,
} from "./secret-output.ts";
import { requireUser, withInstallation } from "./store-access.ts";

export const createKey: CommandDefinition = {
  changes: "access",
  about: SECRET_RULE,
  options: {
    name: { value: "NAME", about: "the name of the key", required: true },
    group: { value: "GROUP", about: "the group of the key", required: true },
    user: { value: "EMAIL", about: "the user that the key belongs to" },
    expires: EXPIRES_OPTION,
    "request-policy": {
      value: "NAME",
      about: "the request policy of the key, in addition to that of its group",
    },
    fallback: { value: "MODE", about: "allow or deny the fallback steps of group and models (allow)" },
    ...mapKinds(RATE_KINDS, (kind) => ({ value: "COUNT", about: describeRate(kind) })),
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { clock } = installation;
      const target = chooseSecretTarget(input, installation.settings, "keys");
      const name = input.require("name");
      const group = input.require("group");
      const email = input.text("user");
      if (!isName(name)) misuse(`--name must be ${NAME_RULE}.`, "For example: --name ci");
      const expiresAtMs = instantFrom(input, "expires");
      if (expiresAtMs !== null && expiresAtMs <= clock.nowMs()) fail("--expires is in the past.");
      const limits = limitsFrom(input);

      const requestPolicy = input.text("request-policy") ?? null;
      const fallback = readFallback(input.text("fallback") ?? "allow");
      const order = { name, group, email, expiresAtMs, limits, requestPolicy, fallback };
      const make = (tx: Installation) => insertNewKey(tx, order, input);
      const { record, secret } = await runLogged(installation, make, (made) => ({
        action: "key.create",
        target: made.title,
        changes: createdFields(formatKey(made.record, group)),
      }));

      const { print, paint } = input.terminal;
      const { publicId } = record;
      const file = storeSecrets(target, [{ name, secret }]);
      if (input.flag("json")) {
        const made = {
          name,
          group,
          user: email ?? null,
          public_id: publicId,
          expires: instantText(expiresAtMs),
          limits: limitsToFile(limits) ?? null,
          ...(requestPolicy === null ? {} : { request_policy: requestPolicy }),
          ...(fallback === null ? {} : { fallback }),
          ...(file === null ? { secret } : { secret_file: file }),
        };
        return printJson(input, made);
      }
      if (file === null) {
        print(`Key ${paint.bold(name)} for group ${group}, shown only once:\n`);
        print(`  ${paint.bold(secret)}\n`);
      } else print(`Key ${paint.bold(name)} for group ${group} is in ${secretFileText(file)}`);
      print(paint.dim(`To revoke it: ${input.command("keys revoke", publicId)}`));
    }),
};

interface KeyOrder {
  name: string;
  group: string;
  email: string | undefined;
  expiresAtMs: number | null;
  limits: CallerLimits;
  requestPolicy: string | null;
  fallback: KeyFallback;
}

function readFallback(text: string): KeyFallback {
  if (text === "allow") return null;
  return text === "deny" ? text : misuse("--fallback must be allow or deny.", "For example: --fallback deny");
}

async function insertNewKey(installation: Installation, order: KeyOrder, input: Input) {
  const { db } = installation;
  const { name, group, email, expiresAtMs, limits, requestPolicy, fallback } = order;
  const groups = await listGroups(db);
  const found = groups.find((candidate) => candidate.name === group);
  if (found === undefined) {
    const names = groups.map((candidate) => candidate.name).join(", ");
    fail(
      `Group "${group}" does not exist.`,
      names === "" ? "Apply a configuration file first." : `Groups: ${names}`,
    );
  }
  const user = email === undefined ? null : await requireUser(db, email);
  if (user === null && found.billing.charge !== "none") {
    fail(
      `The group "${group}" charges a ${found.billing.charge}, and ${NO_PAYER}.`,
      "Set the user: --user EMAIL",
    );
  }
  if (user === null && fallback === null && hasChargingStep(found, groups, await listModels(db))) {
    fail(
      `A fallback step of the group "${group}" charges, and ${NO_PAYER}.`,
      "Set the user: --user EMAIL, or deny fallback: --fallback deny",
    );
  }
  const userId = user?.id ?? null;
  const taken = (await listKeys(db)).find(
    (key) => key.status === "active" && key.name === name && key.userId === userId,
  );
  if (taken !== undefined) {
    fail(
      `A key "${name}" ${user === null ? "without a user" : `of ${user.email}`} already exists.`,
      `Choose another name, or revoke it: ${input.command("keys revoke", taken.publicId)}`,
    );
  }
  const settings = { name, userId, groupId: found.id, expiresAtMs, limits, requestPolicy, fallback };
  const output = newKey(settings, installation);
  await insertKey(db, output.record);
  return { ...output, title: keyTitle(name, user?.email ?? null) };
}

function limitsFrom(input: Input): CallerLimits {
  const count = (option: string): number | null => {
    const value = input.text(option);
    if (value === undefined) return null;
    if (!/^[1-9]\d{0,14}$/.test(value))
      misuse(`--${option} must be a whole number, 1 or more.`, `For example: --${option} 60`);
    return Number(value);
  };
  return { ...NO_LIMITS, ...mapKinds(RATE_KINDS, count) };
}
