/** Schema of the usage export: whether the usage feed is written, and the webhooks that receive it. */

import { z } from "zod";
import { limits } from "../limits/product-limits.ts";
import { describeFields, name, postUrl } from "./basic-values.ts";
import { PRIVATE_NETWORK, webhookSecret } from "./settings.ts";

const webhook = describeFields({
  name: { is: name, means: "the name of the webhook. Its position in the feed belongs to this name" },
  url: {
    is: postUrl,
    means: "the URL that usage is posted to. It is visible to administrators: put secrets into `secret`",
  },
  secret: {
    is: webhookSecret.optional(),
    means: "the secret that signs the requests, stored encrypted",
    leftOut: "the current secret of this webhook is kept; without a secret, requests are not signed",
  },
  private_network: PRIVATE_NETWORK,
  enabled: {
    is: z.boolean().default(true),
    means: "`false` pauses the webhook. It continues where it stopped",
  },
});

export const usageExport = describeFields({
  enabled: {
    is: z.boolean().default(true),
    means:
      "whether requests are appended to the usage feed. Requests that end while it is `false` are not exported later",
  },
  webhooks: {
    is: z
      .array(webhook)
      .max(limits.webhooksMax, { error: `a list of at most ${limits.webhooksMax}` })
      .refine((list) => new Set(list.map((one) => one.name)).size === list.length, {
        error: "a list with unique names",
      })
      .default(() => []),
    means: "the webhooks that receive the feed. Programs can also pull it",
    leftOut: "none",
  },
});
