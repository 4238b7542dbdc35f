/** The navigation, by the role of the user. */

import { Link as RoutedLink, useLocation } from "wouter";
import { mayOpen, PAGES, type PageEntry } from "../pages.tsx";
import { useUser } from "../session.tsx";
import { useCatalogue, useText } from "../text/text.tsx";
import { Link } from "../ui/button.tsx";
import { Icon } from "../ui/icon.tsx";

export function Navigation() {
  const t = useText("shell");
  const { role } = useUser();
  const pages = PAGES.filter((page) => page.nav !== undefined && mayOpen(page, role));
  const own = pages.filter(({ who }) => who === "user");
  const others = pages.filter(({ who }) => who !== "user");
  return (
    <nav aria-label={t.navigation}>
      <Link to="/" className="brand">
        <Icon name="gate" size={22} />
        {t.product}
      </Link>
      <NavigationPart title={role === "user" ? null : t.sections.own} pages={own} />
      {role !== "user" && <NavigationPart title={t.sections[role]} pages={others} />}
      <OtherSites />
    </nav>
  );
}

/** Served beside the console, as separate apps. */
function OtherSites() {
  const texts = useCatalogue();
  return (
    <div className="nav-section">
      <ul>
        <li>
          <a href="/explorer/" className="nav-link">
            <Icon name="code" />
            {texts.explorer.title}
          </a>
        </li>
        <li>
          <a href="/docs/" className="nav-link">
            <Icon name="book" />
            {texts.shell.documentation}
          </a>
        </li>
      </ul>
    </div>
  );
}

function NavigationPart({ title, pages }: { title: string | null; pages: readonly PageEntry[] }) {
  const texts = useCatalogue();
  const [path] = useLocation();
  const present = pages
    .map((page) => page.path)
    .filter((start) => path === start || path.startsWith(`${start}/`))
    .sort((a, b) => b.length - a.length)[0];
  return (
    <div className="nav-section">
      {title !== null && <h2>{title}</h2>}
      <ul>
        {pages.map(
          ({ path: to, nav }) =>
            nav && (
              <li key={to}>
                <RoutedLink href={to} className="nav-link" aria-current={to === present ? "page" : undefined}>
                  <Icon name={nav.icon} />
                  {nav.label(texts)}
                </RoutedLink>
              </li>
            ),
        )}
      </ul>
    </div>
  );
}
