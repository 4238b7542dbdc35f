/** Measures work of the test's own process, and prints the line of an attack: each run is one turn. */

interface OwnWork {
  readonly bytes: number;
  readonly runs: number;
  run(): unknown;
}

/**
 * The least CPU time of several runs, in the main thread: the host of a virtual machine can stop it, which may count as
 * CPU time. What the work needs itself shows each time.
 */
export function measureOwnWork(name: string, { bytes, runs, run }: OwnWork): number {
  const before = process.memoryUsage.rss();
  let peak = before;
  const turns = Array.from({ length: runs }, () => {
    Bun.gc(true);
    const started = process.threadCpuUsage();
    run();
    const { user, system } = process.threadCpuUsage(started);
    peak = Math.max(peak, process.memoryUsage.rss());
    return (user + system) / 1_000;
  });
  Bun.gc(true);
  const least = Math.min(...turns);
  const figures = [
    `sent ${mib(bytes)} MiB`,
    `CPU ${least.toFixed(1)} ms`,
    `worst turn ${Math.max(...turns).toFixed(1)} ms`,
    `memory ${mib(before)} MiB before, ${mib(peak)} peak, ${mib(process.memoryUsage.rss())} after`,
  ];
  console.log(`attack: ${name}: ${figures.join(", ")}`);
  return least;
}

const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(2);
