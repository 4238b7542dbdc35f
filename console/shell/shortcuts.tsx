/** The list of keyboard shortcuts. */

import { mayOpen, PAGES } from "../pages.tsx";
import { useUser } from "../session.tsx";
import { useCatalogue, useText } from "../text/text.tsx";
import { LinkButton } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";

export function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const { shortcuts: t } = useText("shell");
  const texts = useCatalogue();
  const { role } = useUser();
  const places = PAGES.filter((page) => mayOpen(page, role)).flatMap(({ nav }) =>
    nav?.key === undefined ? [] : [{ key: nav.key, name: nav.label(texts) }],
  );
  const keys: readonly (readonly [keys: readonly string[], what: string])[] = [
    [["/"], t.search],
    [["n"], t.create],
    [["?"], t.open],
    [["Esc"], t.close],
    ...places.map(({ key, name }) => [["g", key], t.go(name)] as const),
  ];
  return (
    <Dialog title={t.title} onClose={onClose}>
      <dl className="facts">
        {keys.map(([pressed, what]) => (
          <div key={what} style={{ display: "contents" }}>
            <dt className="row">
              {pressed.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      {role === "admin" && (
        <div>
          <LinkButton to="/admin/setup" icon="list">
            {t.setup}
          </LinkButton>
        </div>
      )}
    </Dialog>
  );
}
