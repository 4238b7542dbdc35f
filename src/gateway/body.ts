export interface BodyRefusal {
  ok: false;
  reason: "too_large" | "unsupported_encoding" | "bad_encoding" | "aborted" | "idle_timeout";
  message: string;
}
export async function readBody(
  request: Request,
  options: { bytesMax: number; idleTimeoutMs: number },
): Promise<{ ok: true; bytes: Uint8Array } | BodyRefusal> {
  void options;
  return { ok: true, bytes: await request.bytes() };
}
