/** Whether a page belongs to this installation, by its Origin, which a page cannot forge. */

export function isOwnOrigin(origin: string, headers: Pick<Headers, "get">, publicUrl: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { host, protocol } = new URL(origin);
  if (origin === new URL(publicUrl).origin) return true;
  return host === headers.get("host") && protocol === `${requestScheme(headers, publicUrl)}:`;
}

/**
 * The gateway serves plain HTTP. If its public URL is https, a proxy in front terminates TLS, and its
 * X-Forwarded-Proto header is trusted.
 */
export function requestScheme(headers: Pick<Headers, "get">, publicUrl: string): "http" | "https" {
  const isForwarded = publicUrl.startsWith("https:") && headers.get("x-forwarded-proto") === "https";
  return isForwarded ? "https" : "http";
}
