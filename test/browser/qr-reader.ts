/** Reads the QR code that a page shows, from its pixels. */

import jsQR from "jsqr";
import type { Locator } from "playwright-core";

interface Pixels {
  width: number;
  height: number;
  rgba: number[];
}

export async function readQrCode(code: Locator): Promise<string | undefined> {
  const png = (await code.screenshot()).toString("base64");
  // The browser decodes the PNG: it has a decoder, and the tests need no other.
  const { width, height, rgba } = await code.page().evaluate<Pixels>(`(async () => {
    const bytes = Uint8Array.from(atob("${png}"), (char) => char.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { width, height, data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    return { width, height, rgba: [...data] };
  })()`);
  return jsQR(Uint8ClampedArray.from(rgba), width, height)?.data;
}
