/** Sets the theme before the page is drawn, so that it does not flash. */

import { chosenTheme, showTheme } from "./theme.ts";

showTheme(chosenTheme());
