/**
 * Maps a public model name to the upstream name with an account's map: an exact entry wins, then the longest matching
 * wildcard. `*` is only allowed at the end and carries the rest over: `gpt-*: eu-gpt-*` sends gpt-5 as eu-gpt-5.
 */
export function mapModel(map: Readonly<Record<string, string>>, publicModel: string): string | null {
  const exact = Object.hasOwn(map, publicModel) ? map[publicModel] : undefined;
  if (exact !== undefined) return exact;
  let best: string | null = null;
  let bestLength = -1;
  for (const [pattern, target] of Object.entries(map)) {
    if (!pattern.endsWith("*")) continue;
    const prefix = pattern.slice(0, -1);
    if (prefix.length <= bestLength || !publicModel.startsWith(prefix)) continue;
    bestLength = prefix.length;
    best = target.endsWith("*") ? target.slice(0, -1) + publicModel.slice(prefix.length) : target;
  }
  return best;
}
