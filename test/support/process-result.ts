/** The exit code and the output of a process. */

export interface ProcessResult {
  code: number;
  out: string;
  err: string;
}

export async function readProcessResult({
  stdout,
  stderr,
  exited,
}: Bun.Subprocess<"ignore" | Blob, "pipe", "pipe">): Promise<ProcessResult> {
  const [out, err, code] = await Promise.all([
    new Response(stdout).text(),
    new Response(stderr).text(),
    exited,
  ]);
  return { code, out, err };
}
