/** Worker thread that parses one text and returns its tree. See `yaml-in-worker.ts`. */

import type { TreeRequest } from "./yaml-in-worker.ts";
import { readTreeData } from "./yaml-tree.ts";

declare const self: Worker;

self.onmessage = ({ data: { text, environment } }: MessageEvent<TreeRequest>) => {
  self.postMessage(readTreeData(text, environment));
};
