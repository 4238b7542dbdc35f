/**
 * The Chromium of the browser tests. Without the windows of a desktop browser, which have pages of their own, it takes half
 * of the CPU time.
 */
export function findChromium(): string | null {
  return Bun.which("chromium-headless-shell") ?? Bun.which("chromium");
}
