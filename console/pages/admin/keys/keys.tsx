/** The keys of all users. The filters are in the address, so that every number of keys can link to its list. */

import { useSearchParams } from "wouter";
import type { ListRow } from "../../../api.ts";
import { useApi, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, Link } from "../../../ui/button.tsx";
import { Segments } from "../../../ui/field.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Badge } from "../../../ui/values.tsx";
import { useKeyColumns } from "../../keys/key-columns.tsx";

type OwnedKey = ListRow<"admin.keys.list">;

const STATUSES = ["active", "revoked", "all"] as const;
const NO_OWNER = "none";

export default function AllKeysPage() {
  const t = useText("adminKeys");
  const own = useText("keys");
  const { search, user, group, status, set, clear } = useKeyQuery();
  const keys = useList(
    "admin.keys.list",
    {
      query: {
        status,
        ...(search === "" ? {} : { search }),
        ...(user === "" ? {} : { user }),
        ...(group === "" ? {} : { group }),
      },
    },
    { keepPrevious: true },
  );
  const columns = useOwnedKeyColumns();
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      <div className="row">
        <SearchBox label={t.search} initial={search} onSearch={(typed) => set("search", typed)} />
        <Segments
          label={own.show}
          value={status}
          choices={STATUSES.map((value) => ({ value, label: own.filter[value] }))}
          onChange={(chosen) => set("status", chosen)}
        />
        <Segments
          label={t.owners.label}
          value={user === NO_OWNER ? NO_OWNER : "all"}
          choices={[
            { value: "all", label: t.owners.all },
            { value: NO_OWNER, label: t.owners.none },
          ]}
          onChange={(chosen) => set("user", chosen === NO_OWNER ? NO_OWNER : "")}
        />
      </div>
      <Restriction user={user} group={group} onClear={clear} />
      <Table
        label={t.title}
        rows={keys}
        rowKey={({ id }) => id}
        href={({ id }) => `/keys/${encodeURIComponent(id)}`}
        columns={columns}
        empty={
          <EmptyState icon="key" title={t.noneFound.title}>
            <p>{t.noneFound.text}</p>
          </EmptyState>
        }
      />
    </Page>
  );
}

function useKeyQuery() {
  const [params, setParams] = useSearchParams();
  const change = (changes: Readonly<Record<string, string>>) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        for (const [name, value] of Object.entries(changes)) {
          if (value === "") next.delete(name);
          else next.set(name, value);
        }
        return next;
      },
      { replace: true },
    );
  return {
    search: params.get("search") ?? "",
    user: params.get("user") ?? "",
    group: params.get("group") ?? "",
    status: STATUSES.find((status) => status === params.get("status")) ?? "active",
    set: (name: "search" | "status" | "user", value: string) => change({ [name]: value }),
    clear: () => change({ user: "", group: "" }),
  };
}

interface RestrictionProps {
  user: string;
  group: string;
  onClear(): void;
}

/** Whose keys are listed, if the page was opened from a user or a group. */
function Restriction({ user, group, onClear }: RestrictionProps) {
  const t = useText("adminKeys");
  const isUser = user !== "" && user !== NO_OWNER;
  const found = useApi("admin.users.get", { params: { id: user } }, { enabled: isUser });
  if (!isUser && group === "") return null;
  return (
    <p className="row">
      <span className="breakable">{isUser ? t.ofUser(found.data?.email ?? user) : t.ofGroup(group)}</span>
      <Button small onClick={onClear}>
        {t.showAll}
      </Button>
    </p>
  );
}

function useOwnedKeyColumns(): readonly Column<OwnedKey>[] {
  const t = useText("adminKeys");
  const [name, group, ...rest] = useKeyColumns();
  // Its width is needed for the owner. The page of the key has it.
  const others = rest.filter(({ key }) => key !== "expires");
  const owner: Column<OwnedKey> = {
    key: "owner",
    header: t.owner,
    cell: (key) => <Owner owner={key.owner} />,
  };
  const linkedGroup: Column<OwnedKey> = {
    key: "group",
    header: group?.header ?? "",
    cell: (key) => (
      <Link to={`/admin/groups/${encodeURIComponent(key.group)}`} className="named">
        {key.group}
      </Link>
    ),
  };
  return [...(name === undefined ? [] : [name]), owner, linkedGroup, ...others];
}

function Owner({ owner }: Pick<OwnedKey, "owner">) {
  const t = useText("adminKeys");
  if (owner === null) return <Badge>{t.noOwner}</Badge>;
  if (owner.email === null) return <Badge tone="warn">{t.deletedOwner}</Badge>;
  return (
    <Link to={`/admin/users/${encodeURIComponent(owner.id)}`} className="named">
      {owner.email}
    </Link>
  );
}
