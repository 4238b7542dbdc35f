/** Plans a list of webhooks: those of alerts, or those of the usage export. Omitted secrets are kept. */

import type { FieldChange } from "../../records/policy.ts";
import { type WebhookList, webhookSecretBinding } from "../../secrets/seal.ts";
import type { WebhookRecord } from "../../store/settings/settings-records.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { changedFields, type FormattedFields, formatSection } from "../state/difference.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { Secrets } from "../state/step.ts";
import { FILE_ONLY, REENTER_SECRET, sealIfChanged, secretDifference } from "./stored-secrets.ts";

type FileWebhook = NonNullable<GatewayFile[WebhookList]>["webhooks"][number];
type Webhooks = readonly WebhookRecord[];

export function buildWebhooks(
  list: WebhookList,
  { before, wanted }: { before: Webhooks; wanted: readonly FileWebhook[] },
  secrets: Secrets,
): WebhookRecord[] {
  return wanted.map(({ name, url, secret, private_network, enabled }) => {
    const present = findWebhook(before, name)?.sealedSecret ?? null;
    const sealedSecret = sealIfChanged(webhookSecretBinding(list, name), present, secret, secrets);
    return { name, url, sealedSecret, privateNetwork: private_network, enabled };
  });
}

export function diffWebhooks(before: Webhooks, after: Webhooks): FieldChange[] {
  const names = new Set([...before, ...after].map(({ name }) => name));
  const findSecret = (webhooks: Webhooks, name: string) => findWebhook(webhooks, name)?.sealedSecret ?? null;
  return [
    ...changedFields(formatWebhooks(before), formatWebhooks(after)),
    ...[...names].flatMap((name) =>
      secretDifference(`webhooks.${name}.secret`, findSecret(before, name), findSecret(after, name)),
    ),
  ];
}

function findWebhook(webhooks: Webhooks, name: string): WebhookRecord | undefined {
  return webhooks.find((webhook) => webhook.name === name);
}

function formatWebhooks(webhooks: Webhooks): FormattedFields {
  const byName = webhooks.map(({ name, url, privateNetwork, enabled }) => {
    return [name, { url, private_network: privateNetwork, enabled }] as const;
  });
  return formatSection({ webhooks: Object.fromEntries(byName) });
}

export function webhooksToFile(webhooks: Webhooks) {
  return webhooks.map(({ name, url, privateNetwork, enabled }) => ({
    name,
    url,
    ...(privateNetwork ? { private_network: true } : {}),
    ...(enabled ? {} : { enabled }),
  }));
}

/** Limits what a browser may change: only the file can allow private networks, for one address each. */
export function webhookReachProblems(
  list: WebhookList,
  webhooks: Webhooks,
  wanted: readonly FileWebhook[] = [],
): FieldProblem[] {
  return wanted.flatMap(({ name, url, private_network, secret }, i) => {
    const present = findWebhook(webhooks, name);
    const problems: FieldProblem[] = [];
    if (private_network && !(present?.privateNetwork && present.url === url))
      problems.push({ path: [list, "webhooks", i, "private_network"], message: FILE_ONLY });
    if (present !== undefined && present.sealedSecret !== null && present.url !== url && secret === undefined)
      problems.push({ path: [list, "webhooks", i, "secret"], message: REENTER_SECRET });
    return problems;
  });
}
