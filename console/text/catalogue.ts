/** The type of all texts of the console, by area. English defines it; every other language must provide the same texts. */

import type { en } from "./en.ts";

export type Catalogue = typeof en;
/** The areas that an app has loaded. */
export type LoadedTexts = Partial<Catalogue>;
/** The texts of one area in another language. */
export type Area<Name extends keyof Catalogue> = Catalogue[Name];
