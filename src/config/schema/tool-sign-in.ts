/** Schema of the sign-in of tools. */

import { z } from "zod";
import { limits } from "../limits/product-limits.ts";
import { describeFields, name, text } from "./basic-values.ts";
import { durationWithin } from "./limits.ts";
import { durationText } from "./usage-limits.ts";

const { accessToken, idleEnd, groupsMax } = limits.toolSignIn;

const path = text(
  "the path of a file of 1 to 1024 characters",
  (value) => value.length >= 1 && value.length <= 1_024 && !/\p{C}/u.test(value),
);

const claudeCode = describeFields({
  managed_settings: {
    is: z
      .record(name, path)
      .refine((settings) => Object.keys(settings).length <= groupsMax, {
        error: `at most ${groupsMax} groups`,
      })
      .default(() => ({})),
    means:
      "by the name of a group: a JSON file with the settings of Claude Code on the computers of its people, relative to this file. Settings can run commands there, so only `apply` and `start` on the host change them",
    leftOut: "none",
    also: "names of `groups`",
  },
});

export const toolSignIn = describeFields({
  enabled: { is: z.boolean().default(true), means: "whether tools may sign in. `false` also ends refreshes" },
  access_token: {
    is: durationWithin(accessToken.minMs, accessToken.maxMs, "1h").prefault(
      durationText(accessToken.defaultMs),
    ),
    means: "how long an access token works, a [duration](#durations). Tools refresh it by themselves",
  },
  idle_end: {
    is: durationWithin(idleEnd.minMs, idleEnd.maxMs, "1h").prefault(durationText(idleEnd.defaultMs)),
    means: "a sign-in ends after this time without use, a [duration](#durations)",
  },
  groups: {
    is: z
      .array(name)
      .max(groupsMax, { error: `a list of at most ${groupsMax}` })
      .default(() => []),
    means: "the groups that people may choose for a tool. The first one that a person may use is preselected",
    leftOut: "all groups that the person may use",
    also: "names of `groups`",
  },
  claude_code: {
    is: claudeCode.default(() => ({ managed_settings: {} })),
    means: "what Claude Code gets after `/login`",
    leftOut: "no settings",
  },
});
