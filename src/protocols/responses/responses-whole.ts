/** Reads and writes whole responses of the Responses API. */

import { CallIds } from "../hub/call-ids.ts";
import type { ClientTarget, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { HubResponse, OutputItem } from "../hub/hub-response.ts";
import { type Json, readNumber, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { REDACTED_NAME } from "../hub/turns.ts";
import { readUsage, withTier } from "../shared/usage.ts";
import { countSearchItems, withSearches } from "../shared/web-searches.ts";
import { buildEnd, buildResponseBase, incompleteReason, writeUsage } from "./response-object.ts";
import {
  builtInCallItem,
  callItem,
  findBuiltIn,
  type ItemOptions,
  type ItemStatus,
  isVisibleReasoning,
  messageItem,
  readItemOptions,
  reasoningItem,
  searchItem,
  writeOutputPart,
} from "./responses-item-writer.ts";
import { readOutputItems, readResponsesStop } from "./responses-output.ts";

export function readResponsesResponse(json: Json, options: ResponseReadOptions): HubResponse | null {
  if (!Array.isArray(json.output)) return null;
  const bounds = new ResponseBounds();
  const output = bounds.readList(json.output);
  // A call that the output limit cut off cannot be run, so it is left out.
  const isCut = (item: Json) => item.status === "incomplete" && String(item.type).endsWith("_call");
  const callIds = new CallIds(readString(json.id), bounds);
  const items = readOutputItems(
    output.filter((item) => !isCut(item)),
    bounds,
    options,
  ).map((item) => {
    for (const _ of item.kind === "message" ? item.parts : [item]) bounds.addItem();
    return item.kind === "call" ? { ...item, callId: callIds.assign(item.callId) } : item;
  });
  const stop = readResponsesStop(json);
  const hasCalls = items.some(({ kind }) => kind === "call");
  return {
    responseId: readString(json.id),
    createdAtSeconds: readNumber(json.created_at),
    items,
    stop: hasCalls && !output.some(isCut) ? "tools" : stop,
    stopSequence: null,
    usage: withSearches(withTier(readUsage(json.usage), json.service_tier), countSearchItems(json.output)),
  };
}

export function writeResponsesResponse(response: HubResponse, client: ClientTarget): Record<string, unknown> {
  const nowSeconds = Math.floor(client.nowMs / 1000);
  // The limit cut the last item off.
  const isCut = incompleteReason(response.stop) !== null;
  const options = readItemOptions(client);
  return {
    ...buildResponseBase(client, response.createdAtSeconds ?? nowSeconds),
    ...buildEnd(response.stop, nowSeconds),
    output: response.items.flatMap((item, at) =>
      writeItem(item, client, {
        ...options,
        status: isCut && at === response.items.length - 1 ? "incomplete" : "completed",
      }),
    ),
    ...(response.usage === null ? { usage: null } : writeUsage(response.usage)),
  };
}

function writeItem(
  item: OutputItem,
  client: ClientTarget,
  options: ItemOptions & { readonly status: ItemStatus },
): Record<string, unknown>[] {
  switch (item.kind) {
    case "message":
      return [messageItem(client.newId("msg_"), options.status, item.parts.flatMap(writeOutputPart))];
    case "reasoning":
      if (isVisibleReasoning(item, client)) return [reasoningItem(client.newId("rs_"), item, client)];
      if (item.isRedacted) client.dropped.add(REDACTED_NAME);
      return [];
    case "search":
      return [searchItem({ ...item, id: client.newId("ws_"), status: "completed" }, options)];
    case "call": {
      const builtIn = findBuiltIn(item, options);
      const input = item.input === "" && item.tool === "function" ? "{}" : item.input;
      const id = client.newId(item.tool === "custom" ? "ctc_" : "fc_");
      return [
        builtIn === null
          ? callItem(id, item, input, "completed")
          : builtInCallItem(id, item, { builtIn, input, status: "completed" }),
      ];
    }
    case "foreign":
      return [];
  }
}
