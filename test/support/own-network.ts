/** A network namespace for tests that change network settings of the kernel. Needs root. */

const VARIABLE = "TEST_NETWORK";

/** Whether this process runs in a namespace of `runInOwnNetwork`. */
export function hasOwnNetwork(): boolean {
  return process.env[VARIABLE] === "own";
}

/** Runs a command in a new namespace, which has a loopback interface only. Resolves to the exit code. */
export function runInOwnNetwork(command: readonly string[]): Promise<number> {
  const inNamespace = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
  const { exited } = Bun.spawn([...inNamespace, ...command], {
    env: { ...process.env, [VARIABLE]: "own" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  return exited;
}
