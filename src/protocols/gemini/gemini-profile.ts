/** What Google's Gemini API can express. */

import { type AccountProfile, OPENAI_PROFILE } from "../hub/account-profile.ts";

export const GEMINI_PROFILE: AccountProfile = {
  ...OPENAI_PROFILE,
  systemRole: "system",
  systemPosition: "first",
  strictSchema: false,
  parallelTools: false,
  // Models before Gemini 3 take a budget: the name of the model decides.
  thinking: "level",
  streamUsage: "always",
  customTools: false,
  imageUrl: "inline",
};

/** The same models at Vertex AI, which rejects the ids of function calls. */
export const VERTEX_GEMINI_PROFILE: AccountProfile = { ...GEMINI_PROFILE, callIds: false };
