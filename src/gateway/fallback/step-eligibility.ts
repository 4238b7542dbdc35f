/** Whether a fallback step can serve a request: what the request contains, and what the step's accounts can express. */

import { accountProfile } from "../../accounts/profile.ts";
import type { AccountRoute, PublishedFallbackStep } from "../../policy/snapshot.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { findRoutes } from "../admission/admit.ts";
import { OUTPUT_TOKENS_MIN } from "../charging/charge.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import { estimateInputMin } from "../metering/input-range.ts";
import type { AdmittedRequest } from "../request-context.ts";

const NO_ROUTES: readonly AccountRoute[] = [];
/** The request uses what only the accounts of its first step have: stored conversations, prompts or files. */
export function isStateful({ request, storedConversation }: AdmittedRequest): boolean {
  if (request.background) return true;
  if (storedConversation === null && (request.readsStored || request.previousResponseId !== null))
    return true;
  if (storedConversation !== null && namesPrompt(request)) return true;
  const { referencesItems, remoteFiles, namesCollections } = request.inputContents();
  return referencesItems || remoteFiles > 0 || namesCollections;
}

function namesPrompt(request: ModelRequest): boolean {
  return request.scannedBody()?.scan.fields.prompt?.kind === "object";
}

/** The routes of the step that can serve the request; none if the step is not eligible. What is unknown does not fit. */
export function findStepRoutes(
  estimates: Pick<InputEstimates, "estimate">,
  context: AdmittedRequest,
  { model, group }: PublishedFallbackStep,
): readonly AccountRoute[] {
  const { endpoint, request } = context;
  if (!group.interfaces.has(endpoint.interface)) return NO_ROUTES;
  if (!fitsContext(estimates, context, model)) return NO_ROUTES;
  const routes = findRoutes(model, endpoint);
  if (endpoint.dialect === null) return routes;
  const needs = readNeeds(request);
  const { dialect } = endpoint;
  return routes.every((route) => canExpress(route, dialect, needs))
    ? routes
    : routes.filter((route) => canExpress(route, dialect, needs));
}

function fitsContext(
  estimates: Pick<InputEstimates, "estimate">,
  { endpoint, request, model: current, storedConversation }: AdmittedRequest,
  { id, contextTokens }: PublishedFallbackStep["model"],
): boolean {
  if (endpoint.output !== "text") return true;
  // Another group serves the same model with the same window.
  if (contextTokens === null) return id === current.id;
  const stored = storedConversation?.record.tokens ?? null;
  // Not bounded by the window: a longer input must be seen.
  const terms = { contextTokens: null, conversationTokens: stored };
  const inputTokens = estimateInputMin(estimates, request, terms);
  return inputTokens + OUTPUT_TOKENS_MIN * request.choices <= contextTokens;
}

interface RequestNeeds {
  readonly hasFiles: boolean;
  readonly hasRemotePictures: boolean;
  readonly hasSchema: boolean;
}

function readNeeds(request: ModelRequest): RequestNeeds {
  const { files, remotePictures, hasSchema } = request.inputContents();
  return { hasFiles: files > 0, hasRemotePictures: remotePictures > 0, hasSchema };
}

function canExpress(
  { account, translation }: AccountRoute,
  dialect: NonNullable<AdmittedRequest["endpoint"]["dialect"]>,
  { hasFiles, hasRemotePictures, hasSchema }: RequestNeeds,
): boolean {
  const { pdf, imageUrl, jsonSchema } = accountProfile(account, translation ?? dialect);
  return (
    (pdf || !hasFiles) &&
    (imageUrl === "remote" || !hasRemotePictures) &&
    (jsonSchema !== "none" || !hasSchema)
  );
}
