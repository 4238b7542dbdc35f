/** Null if the text is not percent-encoded UTF-8. */
export function decodeUriText(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
