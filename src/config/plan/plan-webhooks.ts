/** Plans a list of webhooks: those of alerts, or those of the usage export. Omitted secrets are kept. */

import type { FieldChange } from "../../records/policy.ts";
import type { WebhookRecord } from "../../records/settings.ts";
import { type WebhookList, webhookSecretBinding } from "../../secrets/seal.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { WEBHOOK_SHAPE } from "../state/file-shape.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { Secrets } from "../state/step.ts";
import { diffByName, FILE_ONLY, findByName, REENTER_SECRET, sealIfChanged } from "./stored-secrets.ts";

type FileWebhook = NonNullable<GatewayFile[WebhookList]>["webhooks"][number];
type Webhooks = readonly WebhookRecord[];

export function buildWebhooks(
  list: WebhookList,
  { before, wanted }: { before: Webhooks; wanted: readonly FileWebhook[] },
  secrets: Secrets,
): WebhookRecord[] {
  return wanted.map((webhook) => {
    const { name, secret } = webhook;
    const present = findByName(before, name)?.sealedSecret ?? null;
    const sealedSecret = sealIfChanged(webhookSecretBinding(list, name), present, secret, secrets);
    return { ...WEBHOOK_SHAPE.parse(webhook), sealedSecret };
  });
}

export function diffWebhooks(before: Webhooks, after: Webhooks): FieldChange[] {
  return diffByName({ list: "webhooks", secret: "secret", shape: WEBHOOK_SHAPE }, before, after);
}

export function webhooksToFile(webhooks: Webhooks) {
  return webhooks.map((webhook) => WEBHOOK_SHAPE.write(webhook));
}

/** Limits what a browser may change: only the file can allow private networks, for one address each. */
export function webhookFileOnlyProblems(
  list: WebhookList,
  webhooks: Webhooks,
  wanted: readonly FileWebhook[] = [],
): FieldProblem[] {
  return wanted.flatMap(({ name, url, private_network, secret }, i) => {
    const present = findByName(webhooks, name);
    const problems: FieldProblem[] = [];
    if (private_network && !(present?.privateNetwork && present.url === url))
      problems.push({ path: [list, "webhooks", i, "private_network"], message: FILE_ONLY });
    if (present !== undefined && present.sealedSecret !== null && present.url !== url && secret === undefined)
      problems.push({ path: [list, "webhooks", i, "secret"], message: REENTER_SECRET });
    return problems;
  });
}
