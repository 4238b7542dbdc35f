/** The endpoints that generate and edit images. */

import { OPENAI_API } from "../openai/openai-api.ts";
import { readWholeUsage } from "../openai/openai-whole-usage.ts";
import {
  type BodyFields,
  defineEndpoint,
  type ReaderOptions,
  type StreamedRequest,
} from "../shared/endpoint.ts";
import { requireKind } from "../shared/json-fields.ts";
import { openImagesReader } from "./images-stream.ts";

const COMMON = {
  interface: "images",
  api: OPENAI_API,
  output: "image",
  responseMember: "data",
  checkContent: (_: Uint8Array, { prompt }: BodyFields) =>
    requireKind(prompt, "prompt", ["string"], "a string"),
  openReader: ({ publicModel, choices }: StreamedRequest, { depthMax }: ReaderOptions) =>
    openImagesReader({ publicModel, choices, depthMax }),
  readUsage: readWholeUsage,
} as const;

export const IMAGE_GENERATIONS = defineEndpoint({
  ...COMMON,
  name: "images.generations",
  path: "/images/generations",
});

export const IMAGE_EDITS = defineEndpoint({
  ...COMMON,
  name: "images.edits",
  path: "/images/edits",
  takesForms: true,
});
