/** Documents of Images. */

import type { StreamSample } from "../sample.ts";
import type { PathSamples } from "./embeddings.ts";

const SETTINGS = {
  prompt: "A fox",
  size: "1024x1024",
  quality: "low",
  background: "auto",
  output_format: "png",
  user: "dev",
};
const USAGE = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const RESPONSES = [
  {
    name: "images",
    json: {
      created: 1,
      data: [{ b64_json: "aGVsbG8=", url: "https://a.example/a.png", revised_prompt: "A red fox" }],
      usage: USAGE,
    },
  },
];

export const IMAGE_GENERATION: PathSamples = {
  path: () => "/v1/images/generations",
  requests: [
    { name: "generation", json: { ...SETTINGS, moderation: "auto", response_format: "url", style: "vivid" } },
  ],
  responses: RESPONSES,
};

export const IMAGE_EDIT: PathSamples = {
  path: () => "/v1/images/edits",
  requests: [
    {
      name: "edit",
      json: {
        ...SETTINGS,
        images: [{ image_url: "data:image/png;base64,aGVsbG8=", file_id: "file" }],
        mask: { image_url: "data:image/png;base64,aGVsbG8=", file_id: "file" },
        input_fidelity: "low",
      },
    },
  ],
  responses: [],
};

export const IMAGE_STREAM: StreamSample = {
  name: "events",
  head: [],
  events: [
    { type: "image_generation.partial_image", b64_json: "aGVsbG8=", partial_image_index: 0, size: "auto" },
    { type: "image_edit.partial_image", b64_json: "aGVsbG8=", partial_image_index: 0 },
  ],
  tail: [{ type: "image_generation.completed", b64_json: "aGVsbG8=", usage: USAGE }],
};
