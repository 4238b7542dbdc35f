/** Schema of a list of webhooks: those that receive alerts, and those that receive the usage feed. */

import { z } from "zod";
import { limits } from "../limits/product-limits.ts";
import { describeFields, name, postUrl, text } from "./basic-values.ts";

export const PRIVATE_NETWORK = {
  is: z.boolean().default(false),
  means: "allows loopback and private addresses; can be set only in this file",
};

const secret = text("a secret of 16 to 256 visible characters", (value) =>
  /^[\x21-\x7e]{16,256}$/.test(value),
);

/** What differs between the lists. */
interface WebhookTexts {
  readonly name: string;
  /** What is posted to the URL. */
  readonly posted: string;
  readonly enabled: string;
  readonly list: string;
}

export function describeWebhooks(texts: WebhookTexts) {
  const webhook = describeFields({
    name: { is: name, means: texts.name },
    url: {
      is: postUrl,
      means: `the URL that ${texts.posted} posted to. It is visible to administrators: put secrets into \`secret\``,
    },
    secret: {
      is: secret.optional(),
      means: "the secret that signs the requests, stored encrypted",
      leftOut: "the current secret of this webhook is kept; without a secret, requests are not signed",
    },
    private_network: PRIVATE_NETWORK,
    enabled: { is: z.boolean().default(true), means: texts.enabled },
  });
  return {
    is: z
      .array(webhook)
      .max(limits.webhooksMax, { error: `a list of at most ${limits.webhooksMax}` })
      .refine((list) => new Set(list.map((one) => one.name)).size === list.length, {
        error: "a list with unique names",
      })
      .default(() => []),
    means: texts.list,
    leftOut: "none",
  };
}
