/** Theme and language: also for people who are not signed in. */

import { useState } from "react";
import { LANGUAGES, type Language } from "../text/language.ts";
import { useSpeech, useText } from "../text/text.tsx";
import { chooseTheme, chosenTheme, THEMES } from "../theme.ts";
import { Menu, MenuItem, MenuLabel } from "../ui/menu.tsx";

export function AppearanceMenu() {
  const t = useText("shell");
  const { language, speak } = useSpeech();
  const [theme, setTheme] = useState(chosenTheme);
  const languages = Object.entries(LANGUAGES) as [Language, string][];
  return (
    <Menu label={t.theme} icon={theme === "dark" ? "moon" : "sun"}>
      <MenuLabel>{t.theme}</MenuLabel>
      {THEMES.map((one) => (
        <MenuItem
          key={one}
          isChosen={one === theme}
          onClick={() => {
            chooseTheme(one);
            setTheme(one);
          }}
        >
          {t.themes[one]}
        </MenuItem>
      ))}
      <hr />
      <MenuLabel>{t.language}</MenuLabel>
      {languages.map(([code, name]) => (
        <MenuItem key={code} isChosen={code === language} onClick={() => speak(code)}>
          <span lang={code}>{name}</span>
        </MenuItem>
      ))}
    </Menu>
  );
}
