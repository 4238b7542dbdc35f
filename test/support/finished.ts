/** How a process ended, and all that it said. */

export interface Finished {
  code: number;
  out: string;
  err: string;
}

export async function finished({
  stdout,
  stderr,
  exited,
}: Bun.Subprocess<"ignore" | Blob, "pipe", "pipe">): Promise<Finished> {
  const [out, err, code] = await Promise.all([
    new Response(stdout).text(),
    new Response(stderr).text(),
    exited,
  ]);
  return { code, out, err };
}
