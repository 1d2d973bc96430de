// Where the page's data come from: the file that it stands in, or the server that sent it. Both answer alike.

/** {overview(), tasks(query), task(id), changes(), review}; a file does not change, and nobody decides in it: there the last two are null. */
export function sourceOf() {
  return document.getElementById("overview") ? embedded() : served();
}

/** The text of a packed element: base64 of gzip. */
export async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (char) => char.charCodeAt(0));
  return await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const GLOBALS = { echarts: "echarts", prism: "Prism" };
const NONCE = document.currentScript?.nonce ?? "";
const libraries = new Map();

/** A library of the page, unpacked and run once; the page's own nonce, or its hash, allows it. */
export function library(id) {
  if (!libraries.has(id)) {
    libraries.set(id, unpacked(id).then((text) => {
      const script = document.createElement("script");
      if (NONCE) script.nonce = NONCE;
      script.textContent = text;
      document.head.append(script);
      return window[GLOBALS[id]];
    }));
  }
  return libraries.get(id);
}

function embedded() {
  const blocks = new Map();
  let rows = null;
  const all = () => (rows ??= unpacked("rows").then(JSON.parse));
  return {
    changes: null,
    review: null,
    overview: async () => JSON.parse(document.getElementById("overview").textContent),
    tasks: async (query) => {
      const found = select(await all(), query);
      return { total: found.length, rows: found.slice(query.offset, query.offset + query.limit) };
    },
    task: async (id) => {
      const row = (await all()).find((each) => each.task === id);
      if (!row || row.block === undefined) return null;
      if (!blocks.has(row.block)) blocks.set(row.block, unpacked(`block-${row.block}`).then(JSON.parse));
      return (await blocks.get(row.block))[id];
    },
  };
}

function served() {
  const run = new URLSearchParams(location.search).get("run") ?? "";
  const ask = async (what, more = {}) => {
    const given = Object.entries({ run, ...more }).filter(([, value]) => value !== null && value !== undefined);
    const answer = await fetch(`api/${what}?${new URLSearchParams(given)}`, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(await said(answer));
    return answer.json();
  };
  return {
    changes: () => ask("changes"),
    overview: () => ask("overview"),
    /** Where people decide. */
    review: `review?run=${encodeURIComponent(run)}`,
    tasks: (query) => ask("tasks", query),
    task: (id) => ask("task", { task: id }),
  };
}

/** What a server says is wrong: {"error": words}, or whatever else came. */
async function said(answer) {
  const text = await answer.text();
  let words = text;
  try { words = JSON.parse(text).error ?? text; } catch { /* no JSON */ }
  return String(words).slice(0, 1000) || answer.statusText || `the server answered ${answer.status}`;
}


/** How a task fared with a pipeline; null where it is none of its tasks. */
export const cellOf = (row, pipeline) => (Object.hasOwn(row.cells, pipeline) ? row.cells[pipeline] : null);

/** What `draftverify.bench.tables.task_rows.select` does, here. */
export function select(rows, { pipeline = null, outcome = null, search = "", sort = "place" }) {
  const sought = search.trim().toLowerCase();
  const cells = (row) => (pipeline === null ? Object.values(row.cells) : [cellOf(row, pipeline)].filter(Boolean));
  const is = (cell) => (outcome === "differs" || outcome === "wrong" ? Boolean(cell[outcome]) : cell.status === outcome);
  const found = rows.filter((row) =>
    (!sought || [row.task, row.group, row.about, ...cells(row).flatMap((cell) => [cell.why ?? "", cell.says ?? ""])].some((text) => text.toLowerCase().includes(sought)))
    && (outcome === null || cells(row).some(is)));
  const most = (row, key) => Math.max(0, ...cells(row).map((cell) => cell[key] ?? 0));
  const least = (row) => Math.min(Infinity, ...cells(row).map((cell) => cell.score ?? Infinity));
  const by = { slowest: (row) => -most(row, "seconds"), rounds: (row) => -most(row, "rounds"), score: least }[sort];
  if (!by) return found;
  const keyed = found.map((row) => [by(row), row]);
  keyed.sort((left, right) => (left[0] < right[0] ? -1 : left[0] > right[0] ? 1 : 0));
  return keyed.map((pair) => pair[1]);
}
