/** A sentence of the API's description: what stands between back quotes is code. */
export function Marked({ text }: { text: string }) {
  return text.split("`").map((part, i) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: a part is its place.
    i % 2 === 1 ? <code key={i}>{part}</code> : part,
  );
}
