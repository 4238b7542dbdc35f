/** Schemas of Images: generation and editing. */

import { z } from "zod";
import { model, stream, unixSeconds } from "./fields.ts";

const common = {
  model,
  prompt: z.string().describe("Description of the image or of the edit."),
  n: z.int().min(1).max(128).nullish().describe("Number of images. Each image is charged."),
  size: z.string().nullish().describe("For example `1024x1024`, or `auto`."),
  quality: z.string().nullish().describe("`low`, `medium`, `high`, `auto`, …, depending on the model."),
  background: z.string().nullish().describe("`transparent`, `opaque` or `auto`."),
  output_format: z.string().nullish().describe("`png`, `jpeg` or `webp`."),
  output_compression: z.int().min(0).max(100).nullish(),
  stream,
  partial_images: z.int().min(0).max(3).nullish().describe("Number of partial images in a stream."),
  user: z.string().nullish(),
};

export const imageRequest = z.looseObject({
  ...common,
  moderation: z.string().nullish(),
  response_format: z.string().nullish().describe("`url` or `b64_json`, for models that support both."),
  style: z.string().nullish(),
});

const imageSource = z.looseObject({
  image_url: z.string().nullish().describe("An https or data URL."),
  file_id: z.string().nullish(),
});

export const imageEditRequest = z.looseObject({
  ...common,
  images: z.array(imageSource).max(16).nullish(),
  mask: imageSource.nullish(),
  input_fidelity: z.string().nullish(),
});

const file = () => z.string().meta({ format: "binary" });

/** All values of a form are texts; files are bytes. */
export const imageEditForm = z.looseObject({
  model,
  prompt: common.prompt,
  image: file()
    .optional()
    .describe("One image. Repeat `image[]` for several images: up to 16, each up to 50 MB."),
  "image[]": z.array(file()).max(16).optional(),
  mask: file().optional().describe("Transparent areas mark where to edit the image."),
  n: z.string().optional(),
  size: z.string().optional(),
  quality: z.string().optional(),
  stream: z.enum(["true", "false"]).optional(),
});

const imageUsage = z.looseObject({
  input_tokens: z.int(),
  output_tokens: z.int(),
  total_tokens: z.int(),
});

export const imagesResponse = z.looseObject({
  created: unixSeconds,
  data: z.array(
    z.looseObject({
      b64_json: z.string().nullish().describe("The image in Base64."),
      url: z.string().nullish(),
      revised_prompt: z.string().nullish(),
    }),
  ),
  usage: imageUsage.nullish(),
});

export const imageEvent = z
  .looseObject({
    type: z
      .string()
      .describe("`image_generation.partial_image`, `image_generation.completed`, or `image_edit.…`."),
    b64_json: z.string().optional(),
    partial_image_index: z.int().optional(),
    usage: imageUsage.nullish(),
  })
  .describe("One event of an image stream.");
