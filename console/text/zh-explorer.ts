/** The Chinese texts of the API explorer, which loads no others. */

import { explorer } from "./zh/explorer.ts";
import { kit } from "./zh/kit.ts";
import { limits } from "./zh/limits.ts";
import { models } from "./zh/models.ts";
import { shell } from "./zh/shell.ts";

export const zhExplorer = { explorer, kit, limits, models, shell };
