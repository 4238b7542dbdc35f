/** Finds the stored conversation that a request continues. A long one counts as memory until the request has ended. */

import { type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import type { BodyBudget } from "../bodies/body-budget.ts";
import { SMALL_BODY_BYTES_MAX } from "../bodies/body-memory.ts";
import type { AdmittedRequest } from "../request-context.ts";
import { noRoomForResponse } from "../stored-responses/record-loader.ts";
import type { StoredConversation } from "../stored-responses/stored-conversations.ts";
import type { StoredResponses } from "../stored-responses/stored-responses.ts";
import { clientGone } from "../upstream/send-request.ts";

interface ConversationServices {
  readonly translation: { readonly storedResponses: Pick<StoredResponses, "findConversation"> };
  readonly bodyBudget: Pick<BodyBudget, "open">;
}

/** Sets the conversation of the request, if the gateway itself stores it. */
export function continueConversation(
  { translation, bodyBudget }: ConversationServices,
  context: AdmittedRequest,
  previousResponseId: string,
): MaybePromise<void> {
  const { key } = context.caller;
  const found = translation.storedResponses.findConversation(previousResponseId, key);
  return whenReady(found, (conversation) => holdConversation(bodyBudget, context, conversation));
}

function holdConversation(
  bodyBudget: Pick<BodyBudget, "open">,
  context: AdmittedRequest,
  conversation: StoredConversation | null,
): MaybePromise<void> {
  context.storedConversation = conversation;
  const bytes = conversation?.record.memoryBytes ?? 0;
  if (bytes <= SMALL_BODY_BYTES_MAX) return;
  const memory = bodyBudget.open(context.caller.key, context.call.request);
  context.conversationMemory = memory;
  return whenReady(memory.growTo(bytes), (result) => {
    if (result !== "room") throw result === "left" ? clientGone() : noRoomForResponse(memory.budget);
  });
}
