/** Reads whole responses that pass. One that would hold the event loop is read in a thread. */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { Part } from "../../base/parts.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { findEventFault, SCANNED_EVENT } from "../../protocols/shared/event-bounds.ts";
import type { AccountNames, Audience } from "../../protocols/shared/upstream-error.ts";
import { readWholeResponse, type WholeResponseResult } from "../../protocols/whole-response.ts";
import type { TranslationThreads } from "../translation/translation-threads.ts";

export interface PassedResponseServices {
  readonly jsonDepthMax: number;
  readonly threads: Pick<TranslationThreads, "limits" | "readPassed">;
}

interface PassedResponseTerms {
  readonly endpoint: Endpoint;
  readonly audience: Audience;
  /** Long responses of different accounts take turns. */
  readonly owner: string;
}

export function readPassedResponse(
  { jsonDepthMax, threads }: PassedResponseServices,
  body: Part,
  { endpoint, audience, owner }: PassedResponseTerms,
): MaybePromise<WholeResponseResult> {
  const { publicModel, upstreamModel, account, wantsBase64 = false } = audience;
  const { responseBytesMin } = threads.limits;
  // Vectors are parsed and written in another form, like a translation.
  const isLongPacking = wantsBase64 && body.end - body.start > responseBytesMin;
  if (!isLongPacking && !isSlow(body, responseBytesMin))
    return readWholeResponse(body, endpoint, audience, jsonDepthMax);
  const names = { publicModel, upstreamModel, wantsBase64, account: account && copyNames(account) };
  const terms = { endpoint: endpoint.name, audience: names, depthMax: jsonDepthMax };
  return threads.readPassed({ owner, body, terms });
}

/** Images are long plain strings, which are read fast: most responses of several MiB need no thread. */
const PLAIN_BYTES_MAX = 16 * 1024 * 1024;

function isSlow(body: Part, bytesMin: number): boolean {
  const length = body.end - body.start;
  return length > PLAIN_BYTES_MAX || (length > bytesMin && findEventFault(body, SCANNED_EVENT) !== null);
}

/** The account has functions as well. */
function copyNames({ name, credential, baseUrl, project = null, models = {} }: AccountNames): AccountNames {
  return { name, credential, baseUrl, project, models };
}
