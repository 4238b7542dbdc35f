/** Explains the error codes of upstreams that the gateway passes on. */

import type { UpstreamCode } from "../errors.ts";

export interface Advice {
  readonly why: string;
  readonly todo: string;
  /** `later`: after `Retry-After`, or at `resets_at`. `yes`: with exponential backoff and jitter. */
  readonly retry: "no" | "yes" | "later";
}

const rejection = (why: string, todo: string): Advice => ({ why, todo, retry: "no" });

const CHANGE_CONTENT = "change the content";
const SEND_OTHER_IMAGE = "send another picture";

export const UPSTREAM_GUIDE: Readonly<Record<UpstreamCode, Advice>> = {
  invalid_prompt: rejection("the prompt was refused, mostly by a policy", "change the prompt"),
  content_filter: rejection("a filter refused the prompt", CHANGE_CONTENT),
  content_policy_violation: rejection("a policy refused the content", CHANGE_CONTENT),
  moderation_blocked: rejection("a picture or its prompt was blocked by moderation", CHANGE_CONTENT),
  bio_policy: rejection("the policy on biology refused the content", CHANGE_CONTENT),
  cyber_policy: rejection("the policy on computer security refused the content", CHANGE_CONTENT),
  misalignment_policy_violation: rejection(
    "the policy on what models do refused the content",
    CHANGE_CONTENT,
  ),
  image_content_policy_violation: rejection("a policy refused a picture", SEND_OTHER_IMAGE),
  invalid_image: rejection("a picture cannot be used", SEND_OTHER_IMAGE),
  invalid_image_format: rejection("a picture is of a format that is not taken", SEND_OTHER_IMAGE),
  invalid_image_mode: rejection("a picture is in a colour mode that is not taken", SEND_OTHER_IMAGE),
  invalid_image_url: rejection("the address of a picture is wrong", "mend the address"),
  invalid_base64_image: rejection("a picture is not valid Base64", "encode it again"),
  image_too_large: rejection("a picture has too many pixels", "make it smaller"),
  image_too_small: rejection("a picture has too few pixels", "make it larger"),
  image_file_too_large: rejection("the file of a picture is too large", "make it smaller"),
  image_parse_error: rejection("a picture cannot be read", SEND_OTHER_IMAGE),
  image_file_not_found: rejection("there is no file of this id", "upload it, or send the picture itself"),
  empty_image_file: rejection("the file of a picture is empty", SEND_OTHER_IMAGE),
  unsupported_image_media_type: rejection("the media type of a picture is not taken", SEND_OTHER_IMAGE),
  failed_to_download_image: rejection(
    "a picture could not be fetched from its address",
    "send the picture itself",
  ),
  data_residency_mismatch: rejection(
    "the request needs data of a region that the upstream may not use",
    "leave those data out, or ask your administrator",
  ),
  usage_not_included: rejection(
    "what is paid for upstream does not include the model",
    "use another model, or ask your administrator",
  ),
  vector_store_timeout: { why: "a vector store did not answer in time", todo: "retry", retry: "yes" },
};
