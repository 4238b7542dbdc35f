/** How a person calls the program, for help texts and hints that can be copied into a shell. */

/** The package is not on the PATH after a plain install, so it is called with `npx`; the single executable is. */
export const PROGRAM = Bun.isStandaloneExecutable ? "model-gateway" : "npx model-gateway";
