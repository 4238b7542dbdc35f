/**
 * Settings of the runtime's allocator and garbage collector. The runtime reads them from the environment before any code
 * runs. `bin/model-gateway`, the container image and the systemd unit set them; the bare executable restarts itself.
 */

/**
 * Freed memory is usually needed by the next request, so it is returned to the system after a minute. The allocator
 * looks for returnable holes once a second instead of ten times.
 */
export const ALLOCATOR_SETTINGS: Readonly<Record<string, string>> = {
  MIMALLOC_PURGE_DELAY: "60000",
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "1000",
  BUN_JSC_decommitUnusedMarkedBlockPages: "0",
};

type Environment = Readonly<Record<string, string | undefined>>;

/** The environment with the settings that it lacks, or null if it has all of them. */
export function addAllocatorSettings(environment: Environment): Record<string, string> | null {
  const isComplete = Object.keys(ALLOCATOR_SETTINGS).every((name) => environment[name] !== undefined);
  if (isComplete) return null;
  const present = Object.entries(environment).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  return { ...ALLOCATOR_SETTINGS, ...Object.fromEntries(present) };
}
