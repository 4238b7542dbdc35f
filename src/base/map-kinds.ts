/** Builds an object from a list of names. */

/** One value for each kind, in the order of the list. */
export function mapKinds<Kind extends string, Value>(
  kinds: readonly Kind[],
  value: (kind: Kind) => Value,
): Record<Kind, Value> {
  return Object.fromEntries(kinds.map((kind) => [kind, value(kind)])) as Record<Kind, Value>;
}
