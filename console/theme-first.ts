import { chosenTheme, showTheme } from "./theme.ts";

showTheme(chosenTheme());
