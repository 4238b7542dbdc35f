/** Sends one POST to a configured webhook, signed with the secret that is stored for it. */

import type { Clock } from "../base/clock.ts";
import type { WebhookRecord } from "../records/settings.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { SealError, unseal, type WebhookList, webhookSecretBinding } from "../secrets/seal.ts";
import { VERSION } from "../version.ts";
import {
  buildFailure,
  postWebhook,
  signBody,
  type WebhookClient,
  type WebhookRequest,
  type WebhookResponse,
} from "./post-webhook.ts";

export interface WebhookSender extends WebhookClient {
  keyring: Keyring;
  clock: Pick<Clock, "nowMs">;
}

export async function sendSigned(
  sender: WebhookSender,
  list: WebhookList,
  { name, url, privateNetwork, sealedSecret }: WebhookRecord,
  { contentType, headers, body }: Pick<WebhookRequest, "contentType" | "headers" | "body">,
): Promise<WebhookResponse> {
  const { keyring, clock } = sender;
  let secret: string | null;
  try {
    secret = sealedSecret === null ? null : unseal(keyring, webhookSecretBinding(list, name), sealedSecret);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    return buildFailure("the stored secret cannot be decrypted; enter it again");
  }
  return postWebhook(sender, {
    url,
    privateNetwork,
    contentType,
    headers: {
      "user-agent": `model-gateway/${VERSION}`,
      ...headers,
      ...(secret === null ? {} : { "x-gateway-signature": signBody(secret, body, clock.nowMs()) }),
    },
    body,
  });
}
