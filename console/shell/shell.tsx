/** The frame of every page of a signed-in user: navigation, top bar, keyboard shortcuts. */

import { type ReactNode, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useText } from "../text/text.tsx";
import { IconButton } from "../ui/button.tsx";
import { useShortcuts } from "./keyboard.ts";
import { Navigation } from "./navigation.tsx";
import { ShortcutsDialog } from "./shortcuts.tsx";
import { TopBar } from "./top-bar.tsx";

export function Shell({ children }: { children: ReactNode }) {
  const t = useText("shell");
  const drawer = useRef<HTMLDialogElement>(null);
  const [isHelpOpen, setHelpOpen] = useState(false);
  useShortcuts(() => setHelpOpen(true));
  const [path] = useLocation();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect depends on the change of the path.
  useEffect(() => {
    drawer.current?.close();
    setHelpOpen(false);
  }, [path]);
  return (
    <div className="shell">
      <a className="skip-link" href="#content">
        {t.skip}
      </a>
      <div className="side">
        <Navigation />
      </div>
      <div>
        <TopBar
          menuButton={
            <span className="menu-button">
              <IconButton icon="menu" label={t.openNavigation} onClick={() => drawer.current?.showModal()} />
            </span>
          }
          onHelp={() => setHelpOpen(true)}
        />
        <main id="content" className="content" tabIndex={-1}>
          {children}
        </main>
      </div>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it; a click on a link or beside it does, too. */}
      <dialog
        ref={drawer}
        className="drawer"
        aria-label={t.navigation}
        onClick={(event) => {
          const { target } = event;
          if (target === drawer.current || (target instanceof Element && target.closest("a"))) {
            drawer.current?.close();
          }
        }}
      >
        <div className="row apart">
          <span />
          <IconButton icon="close" label={t.closeNavigation} onClick={() => drawer.current?.close()} />
        </div>
        <Navigation />
      </dialog>
      {isHelpOpen && <ShortcutsDialog onClose={() => setHelpOpen(false)} />}
    </div>
  );
}
