/** A sentence of the API description: text between back quotes is code. */
export function Marked({ text }: { text: string }) {
  return text.split("`").map((part, i) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: a part is identified by its position.
    i % 2 === 1 ? <code key={i}>{part}</code> : part,
  );
}
