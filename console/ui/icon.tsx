/** Line icons on a grid of 24. They are decorative: the text beside them has the same meaning. */

const DRAWINGS = {
  add: "M12 5v14M5 12h14",
  alert: "M12 4 2.8 20h18.4L12 4ZM12 10v4M12 17.2v.1",
  arrowLeft: "M19 12H5M11 6l-6 6 6 6",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15L6 16ZM10 21h4",
  book: "M4 5c3-1 5.5-.5 8 1.500C14.5 4.5 17 4 20 5v14c-3-1-5.5-.5-8 1.500C9.5 18.5 7 18 4 19V5ZM12 6.500V20",
  box: "M12 3l8 4.500v9L12 21l-8-4.500v-9L12 3ZM4 7.500l8 4.5 8-4.500M12 12v9",
  chart: "M4 20h16M7 16v-5M12 16V5M17 16v-8",
  check: "M5 12.500l4.5 4.500L19 7",
  chevronDown: "M6 9.500l6 6 6-6",
  chevronUp: "M6 14.500l6-6 6 6",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3.5 2",
  close: "M6 6l12 12M18 6L6 18",
  code: "M8.5 7l-5 5 5 5M15.5 7l5 5-5 5",
  coins: "M9 14a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM14.8 9.100A5.5 5.5 0 1 1 9.2 16",
  copy: "M9 9h11v11H9V9ZM5 15H4V4h11v1",
  download: "M12 4v11M7 10.500l5 5 5-5M4 20h16",
  edit: "M4 20h4L19 9l-4-4L4 16v4ZM13 7l4 4",
  eye: "M2.5 12C5 7.5 8.2 5.5 12 5.500s7 2 9.5 6.500c-2.5 4.5-5.7 6.5-9.5 6.500S5 16.5 2.5 12ZM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z",
  eyeOff:
    "M4 4l16 16M9.9 5.800c6-1.1 9.5 2.2 11.6 6.2-.7 1.2-1.5 2.3-2.4 3.200M6.5 7.300C4.9 8.5 3.6 10 2.5 12c3.2 5.8 8 7.6 13 5.700M10 10a3 3 0 0 0 4 4",
  file: "M6 3h8l4 4v14H6V3ZM14 3v4h4M9 12h6M9 16h6",
  filter: "M4 6h16M7 12h10M10 18h4",
  gate: "M4 21V9a8 8 0 0 1 16 0v12M9 21v-9a3 3 0 0 1 6 0v9M4 21h16",
  gauge: "M4 18a9 9 0 1 1 16 0M12 14l4-5",
  gift: "M4 11h16v9H4v-9ZM3 7h18v4H3V7ZM12 7v13M12 7C9 7 7 6 7.5 4.500S11 3.5 12 7c1-3.5 4-4 4.5-2.500S15 7 12 7Z",
  group: "M4 5h7v6H4V5ZM13 13h7v6h-7v-6ZM11 8h5v5M8 11v5h5",
  help: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM9.5 9.5a2.5 2.5 0 1 1 3.7 2.2c-.8.5-1.2 1-1.2 1.8M12 16.8v.1",
  history: "M4 5v5h5M4.5 10A8.5 8.5 0 1 1 4 14M12 8v4.500l3 1.5",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 11v5M12 8v.1",
  key: "M8 19a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM11 12l8-8M16 7l3 3M13.5 9.500l2 2",
  link: "M10 14l4-4M8.5 11L6 13.500a3.5 3.5 0 0 0 5 5L13.5 16M15.5 13l2.5-2.500a3.5 3.5 0 0 0-5-5L10.5 8",
  list: "M9 6h11M9 12h11M9 18h11M4.5 6v.1M4.5 12v.1M4.5 18v.1",
  lock: "M6 11h12v9H6v-9ZM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  mail: "M4 6h16v12H4V6ZM4 7l8 6 8-6",
  menu: "M4 7h16M4 12h16M4 17h16",
  moon: "M19.5 14.500A8 8 0 0 1 9.5 4.500a8 8 0 1 0 10 10Z",
  more: "M4.5 12a1 1 0 1 0 2 0 1 1 0 0 0-2 0ZM11 12a1 1 0 1 0 2 0 1 1 0 0 0-2 0ZM17.5 12a1 1 0 1 0 2 0 1 1 0 0 0-2 0Z",
  pause: "M9 6v12M15 6v12",
  play: "M8 5.500v13l10-6.5-10-6.500Z",
  plug: "M8 3v5M16 3v5M6 8h12v3a6 6 0 0 1-12 0V8ZM12 17v4",
  refresh: "M20 5v5h-5M19.5 10A8 8 0 1 0 20 14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM16 16l4.5 4.5",
  server: "M4 4h16v7H4V4ZM4 13h16v7H4v-7ZM8 7.500v.1M8 16.500v.1M12 7.500h5M12 16.500h5",
  settings:
    "M5 7h9M18 7h1M5 17h1M10 17h9M16 9a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM8 19a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z",
  shield: "M12 3l8 3v6c0 4.5-3 7.5-8 9-5-1.5-8-4.5-8-9V6l8-3ZM9 12l2.2 2.200L15.5 10",
  signOut: "M14 4H5v16h9M10 12h10M16.5 8.500L20 12l-3.5 3.5",
  spark: "M12 3l2 7 7 2-7 2-2 7-2-7-7-2 7-2 2-7Z",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2.500v2M12 19.500v2M2.5 12h2M19.5 12h2M5.3 5.300l1.4 1.400M17.3 17.300l1.4 1.400M5.3 18.700l1.4-1.400M17.3 6.700l1.4-1.4",
  tag: "M4 4h8l8 8-8 8-8-8V4ZM8.5 8.500v.1",
  ticket: "M3 8V6h18v2.500a2.5 2.5 0 0 0 0 5V18H3v-4.500a2.5 2.5 0 0 0 0-5V8ZM14 6v2M14 11v2M14 16v2",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.5 20.500c.8-4 3.5-6 7.5-6s6.7 2 7.5 6",
  users:
    "M9 12a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 19.500c.6-3.5 3-5.3 6.5-5.300s5.9 1.8 6.5 5.300M15.5 5.300a3.5 3.5 0 0 1 0 6.400M18 14.600c2 .7 3.2 2.3 3.6 4.9",
  wallet: "M4 7h14V4H6a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h14V7H6M16 13.500v.1",
} as const;

export type IconName = keyof typeof DRAWINGS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      viewBox="0 0 24 24"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth={1.75}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={DRAWINGS[name]} />
    </svg>
  );
}
