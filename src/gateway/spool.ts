export type SpoolRefusal = {
  ok: false;
  reason:
    | "too_large"
    | "unsupported_encoding"
    | "bad_encoding"
    | "aborted"
    | "idle_timeout"
    | "stopped"
    | "disk";
  message: string;
};
export interface Spooled {
  ok: true;
  bytes: number;
  dispose(): Promise<void>;
}
export async function spoolBody(_r: Request, _o: unknown): Promise<Spooled | SpoolRefusal> {
  throw new Error("x");
}
export function bodyWithSplice(_s: Spooled, _p: unknown): { body: Uint8Array; contentLength: number } {
  throw new Error("x");
}
