/** No known model reads more tokens from one image. */
export const PICTURE_TOKENS_MAX = 16_384;

/** The output tokens of OpenAI's image models for a square image. Without a quality they use the best. */
const IMAGE_TOKENS_BY_QUALITY: Readonly<Record<string, number>> = { low: 272, medium: 1_056 };
const IMAGE_TOKENS_BEST = 4_160;
const OBLONG_FACTOR = 1.5;

/** The approximate output tokens of an image of this kind ("1024x1536/high"), for an image that was not finished. */
export function imageOutputTokens(kind: string | null): number {
  const [size = "", quality = ""] = (kind ?? "").split("/");
  const [width, height] = size.split("x");
  const square = IMAGE_TOKENS_BY_QUALITY[quality] ?? IMAGE_TOKENS_BEST;
  return width === height || height === undefined ? square : Math.ceil(square * OBLONG_FACTOR);
}
