/** The name of a browser as its owner knows it. An approximation: user agents contain the names of other browsers. */

const BROWSERS: readonly (readonly [name: string, sign: RegExp])[] = [
  ["Edge", /\bEdgA?\//],
  ["Opera", /\bOPR\//],
  ["Firefox", /\b(?:Firefox|FxiOS)\//],
  ["Chrome", /\b(?:Chrome|CriOS|HeadlessChrome|Chromium)\//],
  ["Safari", /\bSafari\//],
];

const SYSTEMS: readonly (readonly [name: string, sign: RegExp])[] = [
  ["iPhone", /\biPhone\b/],
  ["iPad", /\biPad\b/],
  ["Android", /\bAndroid\b/],
  ["Windows", /\bWindows\b/],
  ["macOS", /\bMac OS X\b/],
  ["ChromeOS", /\bCrOS\b/],
  ["Linux", /\bLinux\b/],
];

/** Null if the client is not a browser. */
export function browserIn(userAgent: string): { browser: string; system: string | null } | null {
  const browser = BROWSERS.find(([, sign]) => sign.test(userAgent))?.[0];
  if (browser === undefined) return null;
  return { browser, system: SYSTEMS.find(([, sign]) => sign.test(userAgent))?.[0] ?? null };
}
