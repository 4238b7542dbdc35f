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
const SEND_OTHER_IMAGE = "send a different image";
const SEND_CONVERSATION = "send the whole conversation; Anthropic's SDKs do";

export const UPSTREAM_GUIDE: Readonly<Record<UpstreamCode, Advice>> = {
  invalid_prompt: rejection("the prompt was rejected, usually by a content policy", "change the prompt"),
  content_filter: rejection("a content filter rejected the prompt", CHANGE_CONTENT),
  content_policy_violation: rejection("a content policy rejected the content", CHANGE_CONTENT),
  moderation_blocked: rejection("an image or its prompt was blocked by moderation", CHANGE_CONTENT),
  bio_policy: rejection("the biology policy rejected the content", CHANGE_CONTENT),
  cyber_policy: rejection("the computer security policy rejected the content", CHANGE_CONTENT),
  misalignment_policy_violation: rejection("the model behavior policy rejected the content", CHANGE_CONTENT),
  image_content_policy_violation: rejection("a content policy rejected an image", SEND_OTHER_IMAGE),
  invalid_image: rejection("an image cannot be used", SEND_OTHER_IMAGE),
  invalid_image_format: rejection("the format of an image is not supported", SEND_OTHER_IMAGE),
  invalid_image_mode: rejection("the color mode of an image is not supported", SEND_OTHER_IMAGE),
  invalid_image_url: rejection("the URL of an image is invalid", "correct the URL"),
  invalid_base64_image: rejection("an image is not valid Base64", "encode it again"),
  image_too_large: rejection("an image has too many pixels", "make it smaller"),
  image_too_small: rejection("an image has too few pixels", "make it larger"),
  image_file_too_large: rejection("an image file is too large", "make it smaller"),
  image_parse_error: rejection("an image cannot be read", SEND_OTHER_IMAGE),
  image_file_not_found: rejection("no file has this id", "upload the file, or send the image itself"),
  empty_image_file: rejection("an image file is empty", SEND_OTHER_IMAGE),
  unsupported_image_media_type: rejection("the media type of an image is not supported", SEND_OTHER_IMAGE),
  failed_to_download_image: rejection(
    "an image could not be downloaded from its URL",
    "send the image itself",
  ),
  data_residency_mismatch: rejection(
    "the request needs data from a region that the upstream may not use",
    "remove this data, or ask your administrator",
  ),
  thread_already_continued: rejection("a later response of the thread exists already", SEND_CONVERSATION),
  thread_continue_in_flight: rejection("another request is continuing the thread", SEND_CONVERSATION),
  thread_fingerprint_mismatch: rejection("a field differs from the one of the thread", SEND_CONVERSATION),
  thread_unsupported_request: rejection("the request uses a feature that threads lack", SEND_CONVERSATION),
  tool_use_failed: rejection(
    "Groq: the model wrote a call that cannot be read; `failed_generation` has it",
    "change the prompt or the tools, or try again",
  ),
  json_validate_failed: rejection(
    "Groq: the model wrote JSON that does not match the format; `failed_generation` has it",
    "change the prompt or the format, or try again",
  ),
  usage_not_included: rejection(
    "the plan at the upstream does not include the model",
    "use another model, or ask your administrator",
  ),
  vector_store_timeout: { why: "a vector store did not respond in time", todo: "retry", retry: "yes" },
};
