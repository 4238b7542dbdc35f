/**
 * Size and quality of a picture, as prices name them: "1024x1024/high", or the size alone. What is left to the
 * upstream ("auto", or not said) is open, and its answer may tell.
 */

const OPEN = "auto";

/** "auto/high" where only the quality is said; null where nothing is. */
export function readImageKind(size: string | null, quality: string | null): string | null {
  if (quality === null || quality === OPEN) return size === OPEN ? null : size;
  return `${size ?? OPEN}/${quality}`;
}

/** What was asked for, and as the answer told it where that was left open. */
export function resolveImageKind(asked: string | null, told: string | null): string | null {
  if (told === null) return asked;
  if (asked === null) return told;
  const [size = OPEN, quality = OPEN] = asked.split("/");
  const [toldSize = OPEN, toldQuality = OPEN] = told.split("/");
  return readImageKind(size === OPEN ? toldSize : size, quality === OPEN ? toldQuality : quality);
}
