/**
 * Finds the account that issued the latest opaque state of a conversation. Only that account can read the state, so the
 * conversation prefers it.
 */

import { decodeText } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { ENCODED_ENVELOPE_START, readSignature } from "../../protocols/gemini/thought-signature.ts";
import { ENVELOPE_PREFIX } from "../../protocols/hub/sealed-state.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { StoredConversation } from "../stored-responses/stored-conversations.ts";
import { turnInput, turnOutput } from "../stored-responses/stored-turn.ts";
import type { StateSeals } from "./state-seals.ts";

export interface ConversationSeals {
  /** The account that issued the latest state; null if it does not serve the request. */
  readonly issuer: AccountRoute | null;
}

interface SealSource {
  readonly routes: readonly AccountRoute[];
  readonly request: Pick<ModelRequest, "inputText">;
  /** The conversation that the request continues, if the gateway itself keeps it. */
  readonly storedConversation: Pick<StoredConversation, "turns"> | null;
  /** The owner of the API key. */
  readonly owner: string;
}

/** The latest state is near the end of a body, before the outputs of the last calls. */
const SEARCH_BYTES_MAX = 1024 * 1024;
/** The search takes a millisecond for each megabyte or less. */
const STORED_SEARCH_BYTES_MAX = 8 * 1024 * 1024;
const QUOTE = 0x22;
const MARKS = [ENVELOPE_PREFIX, ENCODED_ENVELOPE_START].map((start) => Buffer.from(`"${start}`));

/** Returns null for a conversation without state. Only translated accounts issue envelopes. */
export function findSeals(seals: StateSeals, source: SealSource): ConversationSeals | null {
  const { routes, request, storedConversation, owner } = source;
  if (!routes.some(({ translation }) => translation !== null)) return null;
  const { inputText } = request;
  const envelope =
    (inputText.kind === "json" ? findLastEnvelope(inputText.body) : null) ??
    (storedConversation === null ? null : findStoredEnvelope(storedConversation.turns));
  if (envelope === null) return null;
  const issuer = seals.readIssuer(envelope, owner);
  const route = routes.find(
    ({ account, upstreamModel, translation }) =>
      account.id === issuer?.accountId &&
      upstreamModel === issuer.upstreamModel &&
      translation === issuer.dialect,
  );
  return { issuer: route ?? null };
}

function findLastEnvelope({ bytes, start, end }: Part): string | null {
  const from = Math.max(start, end - SEARCH_BYTES_MAX);
  const searched = Buffer.from(bytes.buffer, bytes.byteOffset + from, end - from);
  const at = Math.max(...MARKS.map((mark) => searched.lastIndexOf(mark)));
  if (at === -1) return null;
  const close = searched.indexOf(QUOTE, at + 1);
  if (close === -1) return null;
  const text = decodeText(searched, at + 1, close);
  if (text.startsWith(ENVELOPE_PREFIX)) return text;
  const opaque = readSignature(text)?.opaque;
  return opaque?.kind === "sealed" ? opaque.envelope : null;
}

/** From the last turn back. The output of a turn is later than its input. */
function findStoredEnvelope(turns: readonly Uint8Array[]): string | null {
  let searchedBytes = 0;
  for (const turn of turns.toReversed()) {
    searchedBytes += turn.length;
    if (searchedBytes > STORED_SEARCH_BYTES_MAX) return null;
    const envelope = findLastEnvelope(turnOutput(turn)) ?? findLastEnvelope(turnInput(turn));
    if (envelope !== null) return envelope;
  }
  return null;
}
