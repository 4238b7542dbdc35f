/** The codes that an upstream says and the gateway passes on, explained. */

import type { UpstreamCode } from "../errors.ts";

export interface Advice {
  readonly why: string;
  readonly todo: string;
  /** `later`: after `Retry-After`, or at `resets_at`. `yes`: with a pause that grows, and some randomness in it. */
  readonly retry: "no" | "yes" | "later";
}

const refused = (why: string, todo: string): Advice => ({ why, todo, retry: "no" });

const CHANGE_CONTENT = "change the content";
const OTHER_PICTURE = "send a different image";

export const UPSTREAM_GUIDE: Readonly<Record<UpstreamCode, Advice>> = {
  invalid_prompt: refused("the prompt was rejected, usually by a content policy", "change the prompt"),
  content_filter: refused("a content filter rejected the prompt", CHANGE_CONTENT),
  content_policy_violation: refused("a content policy rejected the content", CHANGE_CONTENT),
  moderation_blocked: refused("an image or its prompt was blocked by moderation", CHANGE_CONTENT),
  bio_policy: refused("the biology policy rejected the content", CHANGE_CONTENT),
  cyber_policy: refused("the computer security policy rejected the content", CHANGE_CONTENT),
  misalignment_policy_violation: refused("the model behavior policy rejected the content", CHANGE_CONTENT),
  image_content_policy_violation: refused("a content policy rejected an image", OTHER_PICTURE),
  invalid_image: refused("an image cannot be used", OTHER_PICTURE),
  invalid_image_format: refused("the format of an image is not supported", OTHER_PICTURE),
  invalid_image_mode: refused("the color mode of an image is not supported", OTHER_PICTURE),
  invalid_image_url: refused("the URL of an image is invalid", "correct the URL"),
  invalid_base64_image: refused("an image is not valid Base64", "encode it again"),
  image_too_large: refused("an image has too many pixels", "make it smaller"),
  image_too_small: refused("an image has too few pixels", "make it larger"),
  image_file_too_large: refused("an image file is too large", "make it smaller"),
  image_parse_error: refused("an image cannot be read", OTHER_PICTURE),
  image_file_not_found: refused("no file has this id", "upload the file, or send the image itself"),
  empty_image_file: refused("an image file is empty", OTHER_PICTURE),
  unsupported_image_media_type: refused("the media type of an image is not supported", OTHER_PICTURE),
  failed_to_download_image: refused("an image could not be downloaded from its URL", "send the image itself"),
  data_residency_mismatch: refused(
    "the request needs data from a region that the upstream may not use",
    "remove this data, or ask your administrator",
  ),
  usage_not_included: refused(
    "the plan at the upstream does not include the model",
    "use another model, or ask your administrator",
  ),
  vector_store_timeout: { why: "a vector store did not respond in time", todo: "retry", retry: "yes" },
};
