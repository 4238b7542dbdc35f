/** Accounts of kind `simulator`: the simulator in this process, which has the APIs of all vendors. */

import { INTERFACES } from "../../records/interfaces.ts";
import { GEMINI_PATH, pathBelowBase } from "./kind-defaults.ts";
import type { KindDefinition } from "./kind-definition.ts";
import { openai } from "./openai.ts";

export const simulator: KindDefinition = {
  ...openai,
  interfaces: INTERFACES,
  address: { from: "process" },
  fields: [],
  credential: "none",
  check: (account) =>
    ["base_url", "credential", "private_network"]
      .filter((field) => Object.hasOwn(account, field))
      .map((field) => ({ field, message: "is not allowed for kind simulator. Remove the field." })),
  apis: ["openai", "google"],
  // Gemini's API is beside OpenAI's.
  path: ({ basePath }, target) =>
    pathBelowBase(target.path.startsWith(GEMINI_PATH) ? basePath.replace(/\/v1$/, "") : basePath, target),
};
