/** The router has taken a path's escapes away but for those of `/`, `?` and their like. */
export function nameIn(param: string): string {
  try {
    return decodeURIComponent(param);
  } catch {
    return param;
  }
}
