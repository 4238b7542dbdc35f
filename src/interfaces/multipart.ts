export interface MultipartFault { reason: "malformed" | "truncated" | "repeated_field" | "too_many_parts" | "headers_too_large" | "field_too_large" | "file_too_large" | "too_many_files" | "not_text"; message: string; param: string | null }
export interface MultipartForm { fields: ReadonlyMap<string, { value: string; start: number; end: number }>; files: readonly { name: string; bytes: number }[] }
export function boundaryOf(_c: string): string | null { return null; }
export function openMultipartScanner(_b: string, _o: unknown): { push(c: Uint8Array): boolean; end(): { ok: true; form: MultipartForm } | { ok: false; fault: MultipartFault } } { throw new Error("x"); }
