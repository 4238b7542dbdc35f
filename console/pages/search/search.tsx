/** The results of the search in the top bar. A single result is opened at once. */

import { useEffect } from "react";
import { useLocation, useSearchParams } from "wouter";
import { type Listing, useList } from "../../data.ts";
import { useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Link } from "../../ui/button.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { Card, Page, PageHeader, Section, Skeleton } from "../../ui/page.tsx";

/** More of a kind are found by the list of that kind. */
const RESULTS_MAX = 10;

interface Result {
  name: string;
  note?: string;
  to: string;
}

interface Results {
  kind: "keys" | "users" | "models" | "accounts" | "groups";
  isLoading: boolean;
  found: readonly Result[];
}

export default function SearchPage() {
  const t = useText("search");
  const { role } = useUser();
  const [params] = useSearchParams();
  const [, go] = useLocation();
  const text = (params.get("q") ?? "").trim();
  const results = useResults(text);
  const isLoading = results.some((kind) => kind.isLoading);
  const all = results.flatMap(({ found }) => found);
  const only = !isLoading && all.length === 1 ? all[0]?.to : undefined;
  useEffect(() => {
    if (only !== undefined) go(only, { replace: true });
  }, [only, go]);
  return (
    <Page>
      <PageHeader
        title={text === "" ? t.title : t.results(text)}
        about={t.hint[role === "admin" ? "admin" : "user"]}
      />
      {isLoading && <Skeleton />}
      {!isLoading && all.length === 0 && (
        <EmptyState icon="search" title={t.none.title}>
          <p>{t.none.text}</p>
        </EmptyState>
      )}
      {results.map(
        ({ kind, found }) =>
          found.length > 0 && (
            <Section key={kind} title={t.kinds[kind]}>
              <Card>
                <ul className="stack">
                  {found.map(({ name, note, to }) => (
                    <li key={to} className="row">
                      <Link to={to} className="breakable">
                        {name}
                      </Link>
                      {note !== undefined && <span className="soft small breakable">{note}</span>}
                    </li>
                  ))}
                </ul>
              </Card>
            </Section>
          ),
      )}
    </Page>
  );
}

/** Of both roles the hooks are called, and only those of the role send requests. */
function useResults(text: string): readonly Results[] {
  const { role } = useUser();
  const query = { search: text, limit: RESULTS_MAX };
  const own = useOwnKeys(query, { enabled: text !== "" && role !== "admin" });
  const all = useEverything(query, { enabled: text !== "" && role === "admin" });
  if (text === "") return [];
  return role === "admin" ? all : own;
}

interface Query {
  search: string;
  limit: number;
}

function useOwnKeys(query: Query, options: { enabled: boolean }): readonly Results[] {
  const keys = useList("keys.list", { query: { ...query, status: "all" } }, options);
  return [
    collect("keys", keys, ({ id, name, group }) => ({ name, note: group, to: buildPath("/keys", id) })),
  ];
}

function useEverything(query: Query, options: { enabled: boolean }): readonly Results[] {
  const keys = useList("admin.keys.list", { query: { ...query, status: "all" } }, options);
  const users = useList("admin.users.list", { query }, options);
  const models = useList("admin.models.list", { query }, options);
  const accounts = useList("admin.accounts.list", { query }, options);
  const groups = useList("admin.groups.list", { query }, options);
  return [
    collect("keys", keys, ({ id, name, group, owner }) => ({
      name,
      note: owner?.email ?? group,
      to: buildPath("/keys", id),
    })),
    collect("users", users, ({ id, email }) => ({ name: email, to: buildPath("/admin/users", id) })),
    collect("models", models, ({ document: { id } }) => ({
      name: id,
      to: `/admin/models?search=${encodeURIComponent(id)}`,
    })),
    collect("accounts", accounts, ({ document: { name } }) => ({
      name,
      to: buildPath("/admin/accounts", name),
    })),
    collect("groups", groups, ({ name }) => ({ name, to: buildPath("/admin/groups", name) })),
  ];
}

function collect<Row>(
  kind: Results["kind"],
  { rows, isLoading }: Listing<Row>,
  toResult: (row: Row) => Result,
): Results {
  return { kind, isLoading, found: rows.map(toResult) };
}

function buildPath(list: string, id: string): string {
  return `${list}/${encodeURIComponent(id)}`;
}
