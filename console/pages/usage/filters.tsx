/** The filters of the usage page. */

import { useId, useState } from "react";
import { useApi } from "../../data.ts";
import { useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { type Choice, Segments } from "../../ui/field.tsx";
import { SearchBox } from "../../ui/search.tsx";
import {
  type FilterName,
  OUTCOMES,
  RANGES,
  type Range,
  SPLITS,
  type Split,
  STATUSES,
  type UsageQuery,
} from "./usage-query.ts";

const KEYS_FOUND_MAX = 100;

export function RangePicker({ query }: { query: UsageQuery }) {
  const { range: t } = useText("usage");
  const choices: Choice<Range>[] = [...RANGES, "custom" as const].map((value) => ({
    value,
    label: t[value],
  }));
  return (
    <div className="row">
      <Segments
        label={t.label}
        value={query.range}
        choices={choices}
        onChange={(range) => query.set("range", range)}
      />
      {query.range === "custom" && (
        <>
          <DayInput label={t.from} value={query.from} onChange={(day) => query.set("from", day)} />
          <DayInput label={t.to} value={query.to} onChange={(day) => query.set("to", day)} />
          <span className="small soft">{t.utc}</span>
        </>
      )}
    </div>
  );
}

function DayInput(props: { label: string; value: string; onChange: (day: string) => void }) {
  return (
    <label className="filter">
      <span>{props.label}</span>
      <input
        type="date"
        className="input small"
        value={props.value}
        onChange={(event) => props.onChange(event.target.value)}
      />
    </label>
  );
}

export function SplitPicker({ query }: { query: UsageQuery }) {
  const { split: t } = useText("usage");
  const offered = useSplits(query);
  return (
    <Segments
      label={t.label}
      value={offered.includes(query.by) ? query.by : "model"}
      choices={offered.map((value) => ({ value, label: t[value] }))}
      onChange={(by) => query.set("by", by)}
    />
  );
}

/** A dimension with a single value cannot be split. The roll-ups of all users are kept by owner only. */
export function useSplits({ filters }: UsageQuery): readonly Split[] {
  const isEverybody = useIsEverybody(filters);
  return SPLITS.filter((by) => {
    if (filters.account !== undefined) return by !== "user" || isEverybody;
    switch (by) {
      case "user":
        return isEverybody && !filters.key && !filters.group && !filters.model;
      case "group":
        return !filters.key && !filters.group && (!isEverybody || !filters.model);
      case "key":
        return !filters.key && (!isEverybody || filters.group !== undefined || !filters.model);
      default:
        return true;
    }
  });
}

/** Whether the page shows requests of several users. */
export function useIsEverybody(filters: UsageQuery["filters"]): boolean {
  const { role } = useUser();
  if (role === "user" || filters.user !== undefined) return false;
  return filters.whose === "everybody" || filters.account !== undefined;
}

export function FilterBar({ query }: { query: UsageQuery }) {
  const { filter: t, outcomes } = useText("usage");
  const { role } = useUser();
  const { data: choices } = useApi("usage.choices");
  const seesEverything = role !== "user";
  const plain = (values: readonly string[] = []): Choice[] =>
    values.map((value) => ({ value, label: value }));
  return (
    <fieldset className="filters">
      <legend className="unseen">{t.title}</legend>
      {seesEverything && (
        <Segments
          label={t.whose}
          value={query.filters.whose === "everybody" ? "everybody" : "own"}
          choices={[
            { value: "own", label: t.own },
            { value: "everybody", label: t.everybody },
          ]}
          onChange={(whose) => query.set("whose", whose === "own" ? "" : whose)}
        />
      )}
      {choices?.has_more_keys ? (
        <KeySearch query={query} newest={choices.keys} />
      ) : (
        <FilterSelect query={query} name="key" label={t.key} choices={keyChoices(choices?.keys)} />
      )}
      <FilterSelect query={query} name="model" label={t.model} choices={plain(choices?.models)} />
      <FilterSelect query={query} name="group" label={t.group} choices={plain(choices?.groups)} />
      {seesEverything && (
        <FilterSelect query={query} name="account" label={t.account} choices={plain(choices?.accounts)} />
      )}
      {seesEverything && <UserFilter query={query} />}
      <FilterSelect
        query={query}
        name="outcome"
        label={t.outcome}
        choices={OUTCOMES.map((value) => ({ value, label: outcomes[value] }))}
      />
      <FilterSelect
        query={query}
        name="status"
        label={t.status}
        choices={STATUSES.map((value) => ({ value, label: t.statuses[value] }))}
      />
      {query.hasFilters && (
        <Button small tone="quiet" icon="close" onClick={query.clear}>
          {t.clear}
        </Button>
      )}
    </fieldset>
  );
}

interface FilterSelectProps {
  query: UsageQuery;
  name: FilterName;
  label: string;
  choices: readonly Choice[];
}

function FilterSelect({ query, name, label, choices }: FilterSelectProps) {
  const { filter: t } = useText("usage");
  const value = query.filters[name] ?? "";
  // The value in the address may be missing from the choices; it still applies.
  const isKnown = value === "" || choices.some((choice) => choice.value === value);
  return (
    <label className="filter">
      <span>{label}</span>
      <select className="input small" value={value} onChange={(event) => query.set(name, event.target.value)}>
        <option value="">{t.any}</option>
        {!isKnown && <option value={value}>{value}</option>}
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </label>
  );
}

function keyChoices(keys: readonly { id: string; name: string }[] = []): Choice[] {
  return keys.map(({ id, name }) => ({ value: id, label: name }));
}

/** With too many keys for a list, the choices are the keys that match the search. */
function KeySearch({
  query,
  newest,
}: {
  query: UsageQuery;
  newest: readonly { id: string; name: string }[];
}) {
  const { filter: t } = useText("usage");
  const [search, setSearch] = useState("");
  const found = useApi(
    "keys.list",
    { query: { status: "all", search, limit: KEYS_FOUND_MAX } },
    { enabled: search !== "", keepPrevious: true },
  );
  const choices = search === "" ? newest : (found.data?.data ?? []);
  return (
    <>
      <SearchBox label={t.searchKeys} onSearch={setSearch} />
      <FilterSelect query={query} name="key" label={t.key} choices={keyChoices(choices)} />
    </>
  );
}

/** With too many users for a list, an address is typed, and applied when it is entered. */
function UserFilter({ query }: { query: UsageQuery }) {
  const { filter: t } = useText("usage");
  const id = useId();
  const [typed, setTyped] = useState(query.filters.user ?? "");
  return (
    <form
      className="filter"
      onSubmit={(event) => {
        event.preventDefault();
        query.set("user", typed.trim());
      }}
    >
      <label htmlFor={id}>{t.user}</label>
      <input
        id={id}
        type="search"
        className="input small"
        placeholder={t.userHint}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          if (event.target.value === "") query.set("user", "");
        }}
        onBlur={() => query.set("user", typed.trim())}
      />
    </form>
  );
}
