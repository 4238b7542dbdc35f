/** A text as a QR code, drawn in the browser: the text is a secret, so no other service draws it. */

import { encode } from "uqr";
import "./profile.css";

/** Larger versions have modules that are too small for a camera at the size shown. */
const VERSION_MAX = 20;
/** Light modules around the code, as the standard requires. */
const BORDER = 4;

/** One path of all dark modules. Renders nothing for a text that is too long: the secret is shown beside it as text. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const rows = encodeRows(text);
  if (rows === null) return null;
  const path = rows
    .flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")))
    .join("");
  return (
    <svg className="qr-code" viewBox={`0 0 ${rows.length} ${rows.length}`} role="img" aria-label={label}>
      <rect width={rows.length} height={rows.length} />
      <path d={path} />
    </svg>
  );
}

/** Rows of modules; true is dark. Null if the text is too long. */
export function encodeRows(text: string): boolean[][] | null {
  try {
    return encode(text, { ecc: "M", maxVersion: VERSION_MAX, border: BORDER }).data;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
