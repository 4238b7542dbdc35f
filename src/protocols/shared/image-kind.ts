/**
 * Size and quality of an image, as prices name them: "1024x1024/high", or the size alone. A value that the request
 * leaves open ("auto" or absent) may be reported in the response.
 */

const AUTOMATIC = "auto";

/** "auto/high" if only the quality is set; null if neither is. */
export function readImageKind(size: string | null, quality: string | null): string | null {
  if (quality === null || quality === AUTOMATIC) return size === AUTOMATIC ? null : size;
  return `${size ?? AUTOMATIC}/${quality}`;
}

/** The requested kind, completed by the reported one where it was left open. */
export function resolveImageKind(requested: string | null, reported: string | null): string | null {
  if (reported === null) return requested;
  if (requested === null) return reported;
  const [size = AUTOMATIC, quality = AUTOMATIC] = requested.split("/");
  const [reportedSize = AUTOMATIC, reportedQuality = AUTOMATIC] = reported.split("/");
  return readImageKind(
    size === AUTOMATIC ? reportedSize : size,
    quality === AUTOMATIC ? reportedQuality : quality,
  );
}
