/** The lower of two bounds, each of which may be absent. */

export function lowest(first: number | null, second: number | null): number | null {
  return first === null || second === null ? (first ?? second) : Math.min(first, second);
}
