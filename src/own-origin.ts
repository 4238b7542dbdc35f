/** Whether a web page is one of ours. Browsers name the origin of what a page sends, and no page can make them lie. */

export function isOwnOrigin(origin: string, headers: Pick<Headers, "get">, publicUrl: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { host, protocol } = new URL(origin);
  if (origin === new URL(publicUrl).origin) return true;
  return host === headers.get("host") && protocol === `${schemeOf(headers, publicUrl)}:`;
}

/** We speak plain HTTP. Whoever is told to be reached by https has a proxy in front that does, and may say so. */
export function schemeOf(headers: Pick<Headers, "get">, publicUrl: string): "http" | "https" {
  const isForwarded = publicUrl.startsWith("https:") && headers.get("x-forwarded-proto") === "https";
  return isForwarded ? "https" : "http";
}
