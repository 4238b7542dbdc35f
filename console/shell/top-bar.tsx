/** The top bar of the console: search, shortcuts, appearance and the user's menu. */

import { type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { useChange } from "../data.ts";
import { useFreshSession, useUser } from "../session.tsx";
import { useText } from "../text/text.tsx";
import { IconButton } from "../ui/button.tsx";
import { Icon } from "../ui/icon.tsx";
import { Menu, MenuItem, MenuLabel } from "../ui/menu.tsx";
import { AppearanceMenu } from "./appearance-menu.tsx";

export function TopBar({ menuButton, onHelp }: { menuButton: ReactNode; onHelp: () => void }) {
  const t = useText("shell");
  return (
    <header className="top-bar">
      {menuButton}
      <GlobalSearch />
      <span className="grow" />
      <span className="wide-only">
        <IconButton icon="help" label={t.shortcuts.open} onClick={onHelp} />
      </span>
      <AppearanceMenu />
      <AccountMenu />
    </header>
  );
}

/** Users who report a problem have its request id, which opens the request. Other texts open the page of results. */
function GlobalSearch() {
  const t = useText("shell");
  const [, go] = useLocation();
  const [typed, setTyped] = useState("");
  return (
    <search className="top-search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const wanted = typed.trim();
          if (wanted === "") return;
          setTyped("");
          const encoded = encodeURIComponent(wanted);
          go(wanted.startsWith("req_") ? `/requests/${encoded}` : `/search?q=${encoded}`);
        }}
      >
        <Icon name="search" size={16} />
        <input
          type="search"
          aria-label={t.search}
          placeholder={t.searchHint}
          autoComplete="off"
          spellCheck={false}
          maxLength={100}
          data-shortcut="search"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
        <kbd>/</kbd>
      </form>
    </search>
  );
}

function AccountMenu() {
  const t = useText("shell");
  const { email, role } = useUser();
  const [, go] = useLocation();
  const refresh = useFreshSession();
  const signOut = useChange("session.end", { onDone: () => void refresh().then(() => go("/sign-in")) });
  return (
    <Menu label={t.account} icon="user">
      <MenuLabel>
        <span className="breakable">{email}</span>
      </MenuLabel>
      <MenuItem icon="shield" onClick={() => go("/profile")}>
        {t.profile}
      </MenuItem>
      {/* On a phone, the list of shortcuts, which has the same link, is not shown. */}
      {role === "admin" && (
        <MenuItem icon="list" onClick={() => go("/admin/setup")}>
          {t.shortcuts.setup}
        </MenuItem>
      )}
      <MenuItem icon="signOut" onClick={() => signOut.mutate({})}>
        {t.signOut}
      </MenuItem>
    </Menu>
  );
}
