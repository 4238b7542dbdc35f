/** The output of a model, in the format of each interface: from a whole response, or from one event of a stream. */

import { z } from "zod";

const delta = z.looseObject({ type: z.literal("response.output_text.delta"), delta: z.string() });
const chunk = z.looseObject({
  object: z.literal("chat.completion.chunk"),
  choices: z.array(z.looseObject({ delta: z.looseObject({ content: z.string().nullish() }) })),
});
const completion = z.looseObject({
  object: z.literal("chat.completion"),
  choices: z.array(z.looseObject({ message: z.looseObject({ content: z.string().nullish() }) })),
});
const response = z.looseObject({
  object: z.literal("response"),
  output: z.array(
    z.looseObject({ content: z.array(z.looseObject({ text: z.string().optional() })).optional() }),
  ),
});

export function readText(value: unknown): string {
  const parsed = delta.safeParse(value);
  if (parsed.success) return parsed.data.delta;
  const part = chunk.safeParse(value);
  if (part.success) return part.data.choices[0]?.delta.content ?? "";
  const whole = completion.safeParse(value);
  if (whole.success) return whole.data.choices[0]?.message.content ?? "";
  const made = response.safeParse(value);
  if (!made.success) return "";
  return made.data.output
    .flatMap(({ content }) => content ?? [])
    .map(({ text }) => text ?? "")
    .join("");
}

const picture = z.looseObject({ b64_json: z.string() });
const pictures = z.looseObject({
  data: z.array(z.looseObject({ b64_json: z.string().nullish(), url: z.string().nullish() })),
});

/** As URLs that an image element can show. Pictures on other servers are named, not loaded. */
export function readPictures(value: unknown): string[] {
  const one = picture.safeParse(value);
  if (one.success) return [dataUrl(one.data.b64_json)];
  const all = pictures.safeParse(value);
  if (!all.success) return [];
  return all.data.data.flatMap(({ b64_json }) => (b64_json ? [dataUrl(b64_json)] : []));
}

/** Detects the format of a generated picture by its first bytes. */
function dataUrl(base64: string): string {
  const type = base64.startsWith("/9j/") ? "jpeg" : base64.startsWith("UklGR") ? "webp" : "png";
  return `data:image/${type};base64,${base64}`;
}

const vectors = z.looseObject({
  data: z.array(z.looseObject({ embedding: z.union([z.array(z.number()), z.string()]) })),
});

export function readVectors(value: unknown): number[][] {
  const found = vectors.safeParse(value);
  if (!found.success) return [];
  return found.data.data.map(({ embedding }) =>
    typeof embedding === "string" ? unpacked(embedding) : embedding,
  );
}

/** Little-endian 32-bit floats. */
function unpacked(base64: string): number[] {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, i) => view.getFloat32(i * 4, true));
}
