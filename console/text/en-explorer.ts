/** The English texts of the API explorer, which loads no others. */

import { explorer } from "./en/explorer.ts";
import { kit } from "./en/kit.ts";
import { limits } from "./en/limits.ts";
import { models } from "./en/models.ts";
import { shell } from "./en/shell.ts";

export const enExplorer = { explorer, kit, limits, models, shell };
