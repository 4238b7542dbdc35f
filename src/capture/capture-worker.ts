/** Worker that redacts, compresses and encrypts captures one after the other. See `capture-thread.ts`. */

import type { CaptureJob, CaptureReply } from "./capture-thread.ts";
import { buildDocument } from "./document.ts";
import { encryptDocument } from "./sealed-content.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<CaptureJob>) => {
  const { requestId, draft, rules, dataKey } = data;
  const content = encryptDocument(buildDocument(draft, rules), requestId, dataKey);
  const reply: CaptureReply = { content };
  self.postMessage(reply);
};
