/** The top bar of the explorer: the way back to the console, language and theme. */

import { AppearanceMenu } from "../shell/appearance-menu.tsx";
import { useText } from "../text/text.tsx";
import { Icon } from "../ui/icon.tsx";

/** The top of the page. Its first control skips to the request. */
export function ExplorerBar({ onSkip }: { onSkip: () => void }) {
  const t = useText("explorer");
  return (
    <>
      <button type="button" className="skip-link" onClick={onSkip}>
        {t.skip}
      </button>
      <header className="explorer-bar">
        <Icon name="gate" size={22} />
        <h1>{t.title}</h1>
        <nav aria-label={t.elsewhere}>
          <a href="/docs/">{t.docs}</a>
          <a href="/console/">{t.console}</a>
        </nav>
        <AppearanceMenu />
      </header>
    </>
  );
}
