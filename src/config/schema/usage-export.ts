/** Schema of the usage export: whether the usage feed is written, and the webhooks that receive it. */

import { z } from "zod";
import { describeFields } from "./basic-values.ts";
import { describeWebhooks } from "./webhooks.ts";

export const usageExport = describeFields({
  enabled: {
    is: z.boolean().default(true),
    means:
      "whether requests are appended to the usage feed. Requests that end while it is `false` are not exported later",
  },
  webhooks: describeWebhooks({
    name: "the name of the webhook. Its position in the feed belongs to this name",
    posted: "usage is",
    enabled: "`false` pauses the webhook. It continues where it stopped",
    list: "the webhooks that receive the feed. Programs can also pull it",
  }),
});
