/** Worker that counts the input of one request. See `count-input.ts`. */

import type { CountJob } from "./count-input.ts";
import { countInputHere } from "./count-request.ts";

declare const self: Worker;

self.onmessage = async ({ data: { bytes, endpoint } }: MessageEvent<CountJob>) => {
  self.postMessage(await countInputHere(bytes, endpoint));
};
