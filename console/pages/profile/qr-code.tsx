import { qrCode } from "./qr.ts";
import "./profile.css";

/** Light modules around it, as readers need them. */
const QUIET = 4;

/** One path of all dark modules. Nothing for a text that does not fit: the secret beside it says the same. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const rows = qrCode(text);
  if (rows === null) return null;
  const size = rows.length + 2 * QUIET;
  const path = rows
    .flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : "")))
    .join("");
  return (
    <svg className="qr-code" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label}>
      <rect width={size} height={size} />
      <path d={path} />
    </svg>
  );
}
