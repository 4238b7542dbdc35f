/** About what a picture of ordinary size takes; sounds and files are taken for the same. */
export const MEDIA_TOKENS = 1_000;
/** No known model reads more from one picture. */
export const PICTURE_TOKENS_MAX = 16_384;

/** As OpenAI's picture models write them, a square one. Where no quality is said they choose the best. */
const DRAWN_TOKENS: Readonly<Record<string, number>> = { low: 272, medium: 1_056 };
const DRAWN_TOKENS_BEST = 4_160;
const OBLONG = 1.5;

/** About what it takes to draw a picture of this kind ("1024x1536/high"), for one that was never finished. */
export function imageOutputTokens(kind: string | null): number {
  const [size = "", quality = ""] = (kind ?? "").split("/");
  const [width, height] = size.split("x");
  const square = DRAWN_TOKENS[quality] ?? DRAWN_TOKENS_BEST;
  return width === height || height === undefined ? square : Math.ceil(square * OBLONG);
}
