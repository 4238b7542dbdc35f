/** Explains the error codes of upstreams that the gateway passes on. */

import type { UpstreamCode } from "../errors.ts";

export interface Advice {
  readonly why: string;
  readonly todo: string;
  /** `later`: after `Retry-After`, or at `resets_at`. `yes`: with exponential backoff and jitter. */
  readonly retry: "no" | "yes" | "later";
}

const refused = (why: string, todo: string): Advice => ({ why, todo, retry: "no" });

const CHANGE_CONTENT = "change the content";
const OTHER_PICTURE = "send another picture";

export const UPSTREAM_GUIDE: Readonly<Record<UpstreamCode, Advice>> = {
  invalid_prompt: refused("the prompt was refused, mostly by a policy", "change the prompt"),
  content_filter: refused("a filter refused the prompt", CHANGE_CONTENT),
  content_policy_violation: refused("a policy refused the content", CHANGE_CONTENT),
  moderation_blocked: refused("a picture or its prompt was blocked by moderation", CHANGE_CONTENT),
  bio_policy: refused("the policy on biology refused the content", CHANGE_CONTENT),
  cyber_policy: refused("the policy on computer security refused the content", CHANGE_CONTENT),
  misalignment_policy_violation: refused("the policy on what models do refused the content", CHANGE_CONTENT),
  image_content_policy_violation: refused("a policy refused a picture", OTHER_PICTURE),
  invalid_image: refused("a picture cannot be used", OTHER_PICTURE),
  invalid_image_format: refused("a picture is of a format that is not taken", OTHER_PICTURE),
  invalid_image_mode: refused("a picture is in a colour mode that is not taken", OTHER_PICTURE),
  invalid_image_url: refused("the address of a picture is wrong", "mend the address"),
  invalid_base64_image: refused("a picture is not valid Base64", "encode it again"),
  image_too_large: refused("a picture has too many pixels", "make it smaller"),
  image_too_small: refused("a picture has too few pixels", "make it larger"),
  image_file_too_large: refused("the file of a picture is too large", "make it smaller"),
  image_parse_error: refused("a picture cannot be read", OTHER_PICTURE),
  image_file_not_found: refused("there is no file of this id", "upload it, or send the picture itself"),
  empty_image_file: refused("the file of a picture is empty", OTHER_PICTURE),
  unsupported_image_media_type: refused("the media type of a picture is not taken", OTHER_PICTURE),
  failed_to_download_image: refused(
    "a picture could not be fetched from its address",
    "send the picture itself",
  ),
  data_residency_mismatch: refused(
    "the request needs data of a region that the upstream may not use",
    "leave those data out, or ask your administrator",
  ),
  usage_not_included: refused(
    "what is paid for upstream does not include the model",
    "use another model, or ask your administrator",
  ),
  vector_store_timeout: { why: "a vector store did not answer in time", todo: "retry", retry: "yes" },
};
