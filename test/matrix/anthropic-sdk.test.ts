/** Anthropic's SDK, in its current and in an older version, on accounts of every dialect. */

import { SDK_PACKAGES, type SdkVersion } from "../messages/anthropic-sdk.ts";
import { openAnthropicClient } from "./anthropic-client.ts";
import { describeMatrix } from "./describe-matrix.ts";

for (const version of Object.keys(SDK_PACKAGES) as SdkVersion[])
  describeMatrix(`@anthropic-ai/sdk ${version}`, {
    native: "messages",
    open: (url) => openAnthropicClient(version, url),
  });
