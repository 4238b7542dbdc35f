/** Converts a screenshot to WebP: a quarter of the size of the PNG. */

import type { Page } from "playwright-core";

/** Text stays sharp at this quality. */
const QUALITY = 0.75;

/** In a page of the browser, which has both codecs. */
export async function toWebp(page: Page, png: Buffer): Promise<Buffer> {
  const webp = await page.evaluate<string>(`(async () => {
    const bytes = Uint8Array.from(atob("${png.toString("base64")}"), (char) => char.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    const blob = await canvas.convertToBlob({ type: "image/webp", quality: ${QUALITY} });
    return new Uint8Array(await blob.arrayBuffer()).toBase64();
  })()`);
  return Buffer.from(webp, "base64");
}
