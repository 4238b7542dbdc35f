/** `npm run release:fetch`: downloads what a release needs and this repository does not have. */

import { fetchInputs } from "./inputs.ts";

await fetchInputs((line) => console.log(line));
