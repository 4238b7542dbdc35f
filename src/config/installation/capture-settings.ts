/** How this process stores captured requests: the `capture` section of the file, or its defaults. */

import type { CaptureStorage } from "../../records/capture.ts";
import { limits } from "../limits/product-limits.ts";
import type { FileCapture } from "../schema/capture.ts";

export function readCaptureSettings(file: FileCapture | undefined): CaptureStorage {
  const { keptMs, budgetMib, bodyKib } = limits.capture;
  return {
    keptMs: file?.retention ?? keptMs,
    budgetBytes: (file?.budget_mib ?? budgetMib) * 2 ** 20,
    bodyBytesMax: (file?.body_kib ?? bodyKib) * 2 ** 10,
    redactions: file?.redact ?? [],
  };
}
