// Charts: ECharts options from the figures, drawn again when the theme, the width or the figures change.
import { library } from "./source.js";
import { digits, percent, plain, seconds, shortened, times } from "./text.js";

// A pipeline's colour means that pipeline and nothing else, green, red and amber how something ended, greys are parts of a whole.
const PART = { draft: "--part0", verify: "--part1", rest: "--part2" };
const SYMBOL = 13; // pixels of a point
export const FEW = 8; // points; of more the numbers alone stand in the chart
export const COLORS = 8;
const drawn = new Map(); // element → {chart, option, height, width}

/** Draw into an element: `option(theme)` gives what ECharts is to show, `height` its pixels. */
export async function draw(element, height, option) {
  element.style.height = `${height}px`;
  const echarts = await library("echarts");
  forget();
  if (!element.isConnected) return;
  let own = drawn.get(element);
  if (!own) {
    own = { chart: echarts.init(element, null, { renderer: "svg" }) };
    drawn.set(element, own);
    new ResizeObserver(() => element.isConnected && own.width !== element.clientWidth && paint(element, own)).observe(element);
  }
  paint(element, Object.assign(own, { option, height }));
}

/** A chart in the theme and at the width as they are now. */
function paint(element, own) {
  own.width = element.clientWidth;
  own.chart.resize();
  own.chart.setOption(own.option({ ...theme(), width: own.width, height: own.height }), { notMerge: true });
}

/** All charts again. */
export function redraw() {
  forget();
  for (const [element, own] of drawn) paint(element, own);
}

/** Let go of charts that stand in no page any more: a page that follows a run draws them again and again. */
function forget() {
  for (const [element, { chart }] of drawn) {
    if (element.isConnected) continue;
    chart.dispose();
    drawn.delete(element);
  }
}

/** The page's colours as they are now. */
function theme() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const color = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const found = Object.fromEntries(["ink", "soft", "paper", "line", "accent", "gain", "loss", "unclear", "wait"].map((name) => [name, color(`--${name}`)]));
  found.series = Array.from({ length: COLORS }, (_, index) => color(`--c${index}`));
  found.part = Object.fromEntries(Object.entries(PART).map(([part, name]) => [part, color(name)]));
  probe.remove();
  return found;
}

function base(colors, more) {
  const font = getComputedStyle(document.body).fontFamily;
  return {
    animation: false,
    textStyle: { fontFamily: font, fontSize: 12, color: colors.ink },
    grid: { left: 8, right: 16, top: 12, bottom: 8, containLabel: true },
    tooltip: { renderMode: "richText", confine: true, backgroundColor: colors.paper, borderColor: colors.line, textStyle: { color: colors.ink, fontSize: 12 } },
    ...more,
  };
}

function axis(colors, more) {
  return {
    axisLine: { lineStyle: { color: colors.line } }, axisTick: { show: false },
    axisLabel: { color: colors.soft, fontSize: 12, ...more.axisLabel },
    splitLine: { lineStyle: { color: colors.line, opacity: 0.6 } },
    nameTextStyle: { color: colors.soft, fontSize: 12 }, nameLocation: "middle",
    ...more, ...(more.axisLabel ? { axisLabel: { color: colors.soft, fontSize: 12, ...more.axisLabel } } : {}),
  };
}

const keys = (colors, names) => ({ data: names, top: 0, left: 0, itemWidth: 12, itemHeight: 8, itemGap: 14, textStyle: { color: colors.soft, fontSize: 12 }, type: "scroll" });

/** A horizontal or vertical interval, as a custom series draws it; dim = 0 along x, 1 along y. */
function whisker(dim, color, width = 1.5) {
  return (params, api) => {
    const place = api.value(dim === 0 ? 1 : 0);
    const ends = [api.value(2), api.value(3)].map((end) => api.coord(dim === 0 ? [end, place] : [place, end]));
    const cap = dim === 0 ? [[0, -4], [0, 4]] : [[-4, 0], [4, 0]];
    const line = (from, to) => ({ type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: typeof color === "function" ? color(params.dataIndex) : color, lineWidth: width } });
    const shift = (point, by) => [point[0] + by[0], point[1] + by[1]];
    return { type: "group", children: [line(...ends), ...ends.map((end) => line(shift(end, cap[0]), shift(end, cap[1])))] };
  };
}

const colorOf = (colors, index) => colors.series[index % COLORS];

/** Cost against quality: a point per pipeline with both intervals, the baseline a diamond; each with its name or number. */
export function picture(found, unit) {
  return (colors) => {
    const points = found.points.filter((point) => point[unit]?.value > 0 && point.quality?.value !== null);
    const write = unit === "seconds" ? seconds : digits;
    const xs = points.flatMap(({ [unit]: found }) => (found.known ? [found.value, found.low, found.high] : [found.value]));
    const near = xs.length && Math.max(...xs) < 6 * Math.min(...xs);
    const [low, high] = near ? [0, 1.1 * Math.max(...xs)] : [niceLow(Math.min(...xs)), niceHigh(Math.max(...xs))];
    const range = { type: near ? "value" : "log", name: `${unit} per task${near ? "" : " (log)"}`, min: low, max: high };
    const along = (x) => (near ? x / high : Math.log(x / low) / Math.log(high / low));
    const grid = { left: 64, right: 28, top: 30, bottom: 50 };
    const [across, down] = [colors.width - grid.left - grid.right, colors.height - grid.top - grid.bottom];
    const names = points.map((point) => plain(point.pipeline) + (point.baseline ? " (baseline)" : ""));
    const spots = points.map((point) => ({ x: grid.left + along(point[unit].value) * across, y: grid.top + (1 - point.quality.value) * down }));
    const field = { left: grid.left, right: colors.width, top: 0, bottom: grid.top + down };
    const inWords = points.length <= FEW ? beside(spots, names, field, [10, 16]) : null;
    const labels = inWords ?? beside(spots, points.map((point) => String(point.index + 1)), field, [0, 16, 32, 48]);
    return base(colors, {
      grid,
      xAxis: axis(colors, { ...range, nameGap: 28, axisLabel: { formatter: write, hideOverlap: true, showMinLabel: true } }),
      yAxis: axis(colors, { type: "value", name: found.quality, nameGap: 48, min: 0, max: 1, axisLabel: { formatter: percent } }),
      series: [
        { type: "custom", silent: true, renderItem: whisker(0, (index) => colorOf(colors, points[index].index), 1.2), data: points.map((point) => [point[unit].value, point.quality.value, ...(point[unit].known ? [point[unit].low, point[unit].high] : [point[unit].value, point[unit].value])]), encode: { x: [0, 2, 3], y: 1 }, clip: true },
        { type: "custom", silent: true, renderItem: whisker(1, (index) => colorOf(colors, points[index].index), 1.2), data: points.map((point) => [point[unit].value, point.quality.value, point.quality.low, point.quality.high]), encode: { x: 0, y: [1, 2, 3] }, clip: true },
        {
          type: "scatter", z: 3,
          data: points.map((point, place) => ({
            name: names[place], value: [point[unit].value, point.quality.value], symbol: point.baseline ? "diamond" : "circle", symbolSize: SYMBOL,
            itemStyle: { color: point.baseline ? colors.paper : colorOf(colors, point.index), borderColor: colorOf(colors, point.index), borderWidth: 2 },
            label: { ...labels?.[place], ...(inWords ? { color: colors.ink, textBorderColor: colors.paper, textBorderWidth: 3 } : badge(colors, point.index)) },
          })),
          tooltip: { formatter: (point) => `${point.name}\n${found.quality}: ${percent(point.value[1])}\n${unit} per task: ${write(point.value[0])}` },
          markLine: reference(colors, points),
        },
      ],
    });
    function reference(colors, points) {
      const bases = points.filter((point) => point.baseline);
      const own = bases.length === 1 ? bases[0] : undefined; // of a sweep each cell may have its own
      if (!own) return undefined;
      const style = { silent: true, symbol: "none", precision: 12, label: { show: false }, lineStyle: { color: colors.soft, type: "dashed", width: 1, opacity: 0.6 } };
      return { ...style, data: [{ xAxis: own[unit].value }, { yAxis: own.quality.value }] };
    }
  };
}

/** Where the names of points stand: of all of them, or null where one finds no room beside its point. */
function beside(spots, texts, { left, right, top, bottom }, [air, ...distances]) {
  const size = SYMBOL / 2;
  const taken = spots.map(({ x, y }) => ({ left: x - size, right: x + size, top: y - size - air, bottom: y + size + air }));
  const isFree = (box, own) => box.left > left + 3 && box.right < right - 3 && box.top >= top && box.bottom < bottom - 3
    && taken.every((other, place) => place === own || box.right + 3 < other.left || other.right + 3 < box.left || box.bottom < other.top || other.bottom < box.top);
  const labels = spots.map(({ x, y }, place) => {
    const half = widthOf(texts[place]) / 2 + 3;
    for (const far of distances) for (const [across, down] of [[1, -1], [-1, -1], [0, -1], [1, 1], [-1, 1], [0, 1], [1, 0], [-1, 0]]) {
      const [dx, dy] = [across * (half + (down ? 0 : far - 4)), down * far];
      const box = { left: x + dx - half, right: x + dx + half, top: y + dy - 8, bottom: y + dy + 8 };
      if (!isFree(box, place)) continue;
      taken.push(box);
      return { show: true, formatter: texts[place], position: [dx + size, dy + size], align: "center", verticalAlign: "middle", fontSize: 12 };
    }
    return null;
  });
  return labels.includes(null) ? null : labels;
}

/** Pixels of a text in a chart. */
function widthOf(text) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A pipeline's number on its colour, as tables have it. */
const badge = (colors, index) => ({ color: colors.paper, backgroundColor: colorOf(colors, index), borderRadius: 2, padding: [3, 4, 2, 4], fontSize: 11, fontWeight: 600, textBorderWidth: 0 });

/** The axis of rows that are of pipelines: number and name. */
function rowAxis(colors, rows, names) {
  const shown = shortened(names, Math.floor((0.45 * colors.width) / 7) - 4);
  return axis(colors, {
    type: "category", data: names, inverse: true, splitLine: { show: false },
    axisLabel: { color: colors.ink, interval: 0, formatter: (_, place) => `${shown[place]} {${"p" + place}|${rows[place].index + 1}}`, rich: Object.fromEntries(rows.map((row, place) => ["p" + place, badge(colors, row.index)])) },
  });
}

/** The ends of a log axis: 1, 2 or 5 times a power of ten. */
const ends = (x) => [1, 2, 5, 10].map((step) => step * 10 ** Math.floor(Math.log10(x)));
const niceLow = (x) => ends(x).findLast((end) => end <= x) ?? x;
const niceHigh = (x) => ends(x).find((end) => end >= x) ?? x;

/** Seconds per task by part, a bar per pipeline. */
export function split(rows) {
  return (colors) => {
    const names = rows.map((row) => plain(row.pipeline));
    return base(colors, {
      legend: keys(colors, Object.keys(PART)),
      grid: { left: 8, right: 24, top: 30, bottom: 8, containLabel: true },
      tooltip: { ...base(colors).tooltip, trigger: "axis", axisPointer: { type: "shadow", shadowStyle: { opacity: 0.08 } }, formatter: (parts) => [parts[0].name, ...parts.map((part) => `${part.seriesName}: ${seconds(part.value)}`)].join("\n") },
      xAxis: axis(colors, { type: "value", axisLabel: { formatter: seconds, hideOverlap: true } }),
      yAxis: rowAxis(colors, rows, names),
      series: Object.keys(PART).map((part) => ({ name: part, type: "bar", stack: "s", barMaxWidth: 20, itemStyle: { color: colors.part[part] }, data: rows.map((row) => row.tasks ? row.split[part] / row.tasks : 0) })),
    });
  };
}

/** Predicted (grey) against measured (coloured by what it says), the line at 1. */
export function speedups(rows) {
  return (colors) => {
    const all = [1, ...rows.flatMap((row) => [row.speedup, row.predicted]).filter((each) => each?.known).flatMap((each) => [each.low, each.high])];
    const names = rows.map((row) => plain(row.label));
    const data = (key, offset) => rows.map((row, index) => ({ index, each: row[key], offset })).filter((one) => one.each?.known);
    const lane = (key, offset, color) => ({
      name: key === "speedup" ? "measured" : "predicted", type: "custom", clip: true, itemStyle: { color: key === "speedup" ? colors.ink : colors.soft },
      data: data(key, offset).map(({ index, each }) => [each.value, index, each.low, each.high]),
      encode: { x: [0, 2, 3], y: 1 },
      renderItem: (params, api) => {
        const shade = color(rows[api.value(1)]);
        const move = (point) => [point[0], point[1] + offset];
        const [low, high, middle] = [2, 3, 0].map((dim) => move(api.coord([api.value(dim), api.value(1)])));
        return { type: "group", children: [
          { type: "line", shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] }, style: { stroke: shade, lineWidth: 2 } },
          { type: "circle", shape: { cx: middle[0], cy: middle[1], r: 4.5 }, style: { fill: key === "speedup" ? shade : colors.paper, stroke: shade, lineWidth: 2 } },
        ] };
      },
      tooltip: { formatter: (point) => `${names[point.value[1]]}\n${point.seriesName}: ${times(point.value[0])} (${times(point.value[2])} – ${times(point.value[3])})` },
    });
    const both = rows.some((row) => row.predicted?.value > 0);
    return base(colors, {
      legend: both ? keys(colors, ["measured", "predicted"]) : undefined,
      grid: { left: 8, right: 24, top: both ? 30 : 12, bottom: 30, containLabel: true },
      xAxis: axis(colors, { type: "log", logBase: 2, min: () => Math.min(0.5, 2 ** Math.floor(Math.log2(Math.min(...all)))), max: () => Math.max(2, 2 ** Math.ceil(Math.log2(Math.max(...all)))), name: "speed-up (log); left of 1× is a loss", nameGap: 26, axisLabel: { formatter: (x) => `${digits(x)}×`, hideOverlap: true } }),
      yAxis: rowAxis(colors, rows, names),
      series: [
        { ...lane("speedup", both ? -6 : 0, (row) => colors[row.verdict ?? "unclear"]), markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: colors.ink, width: 1, type: "solid" }, data: [{ xAxis: 1 }] } },
        ...(both ? [lane("predicted", 7, () => colors.soft)] : []),
      ],
    });
  };
}

/** Acceptance by position, a line per pipeline, with intervals where there is one line. */
export function positions(pipelines) {
  return (colors) => {
    const most = Math.max(...pipelines.flatMap((each) => each.positions.map((one) => one.position)), 1);
    const alone = pipelines.length <= 3;
    return base(colors, {
      grid: { left: 30, right: 20, top: 12, bottom: 32, containLabel: true },
      xAxis: axis(colors, { type: "value", min: 0, max: most + 2, minInterval: 1, axisLabel: { formatter: (x) => (x === 0 || x > most + 1 ? "" : x) }, name: "position in the block", nameGap: 26, splitLine: { show: false } }),
      yAxis: axis(colors, { type: "value", min: 0, max: 1, name: "accepted of the checked", nameGap: 50, axisLabel: { formatter: percent } }),
      series: pipelines.flatMap((each) => {
        const color = colorOf(colors, each.index);
        const name = plain(each.name);
        const line = { name, type: "line", symbolSize: 5, symbol: each.positions.length > 40 ? "none" : "circle", lineStyle: { width: 2, color }, itemStyle: { color }, data: each.positions.map((one) => [one.position + 1, one.value]),
          tooltip: { formatter: (point) => { const one = each.positions[point.dataIndex]; return `${name}, position ${one.position + 1}\n${percent(one.value)} (${percent(one.low)} – ${percent(one.high)})\nof ${one.trials} checked`; } } };
        const ends = { name, type: "custom", silent: true, renderItem: whisker(1, color, 1), z: 1, itemStyle: { opacity: 0.5, color }, data: each.positions.map((one) => [one.position + 1, one.value, one.low, one.high]), encode: { x: 0, y: [1, 2, 3] } };
        return alone && most <= 24 ? [line, ends] : [line];
      }),
    });
  };
}

/** T against F by threshold: over all items, and dashed within tasks. */
export function roc(pipelines) {
  return (colors) => {
    const share = (name) => axis(colors, { type: "value", min: 0, max: 1, name, nameGap: 26, axisLabel: { formatter: percent, hideOverlap: true } });
    const line = (each, points, type) => ({ name: plain(each.name), type: "line", symbol: "none", lineStyle: { width: 2, type, color: colorOf(colors, each.index) }, itemStyle: { color: colorOf(colors, each.index) }, data: points.map((one) => [one.false_pass, one.true_pass]) });
    return base(colors, {
      grid: { left: 8, right: 24, top: 12, bottom: 26, containLabel: true },
      xAxis: { ...share("wrong items that pass, F"), nameLocation: "middle" },
      yAxis: share("T"),
      series: pipelines.flatMap((each) => [line(each, each.points, "solid"), line(each, each.within, "dashed")]),
    });
  };
}

const STAGES = [["handed_on", "handed on"], ["passed", "passed"], ["rejected", "refused"], ["timeouts", "timed out"], ["errors", "failed"], ["abstentions", "abstained"]];

/** What each stage did with the items that came to it. */
export function stages(found) {
  return (colors) => {
    const shades = { handed_on: colors.part.rest, passed: colors.gain, rejected: colors.loss, timeouts: colors.wait, errors: colors.part.draft, abstentions: colors.part.verify };
    const used = STAGES.filter(([key]) => found.some((stage) => stage[key]));
    return base(colors, {
      legend: keys(colors, used.map(([, name]) => name)),
      grid: { left: 8, right: 24, top: 30, bottom: 8, containLabel: true },
      tooltip: { ...base(colors).tooltip, trigger: "axis", axisPointer: { type: "shadow", shadowStyle: { opacity: 0.08 } }, formatter: (parts) => [parts[0].name, ...parts.filter((part) => part.value).map((part) => `${part.seriesName}: ${part.value}`)].join("\n") },
      xAxis: axis(colors, { type: "value", minInterval: 1, axisLabel: { hideOverlap: true } }),
      yAxis: axis(colors, { type: "category", inverse: true, data: found.map((stage) => plain(stage.stage, 40)), axisLabel: { color: colors.ink }, splitLine: { show: false } }),
      series: used.map(([key, name]) => ({ name, type: "bar", stack: "s", barMaxWidth: 20, itemStyle: { color: shades[key] }, data: found.map((stage) => stage[key]) })),
    });
  };
}

const ENDED = 130; // pixels for the names of how tasks ended

/** Refused items from where they were refused, over what followed, to how the task ended. */
export function flow(found) {
  return (colors) => {
    const ended = { accepted: colors.gain, failed: colors.loss, refused: colors.wait, waiting: colors.wait, abstained: colors.wait };
    const nodes = new Map();
    const links = new Map();
    const node = (depth, name, color) => {
      const key = `${depth}:${name}`;
      if (!nodes.has(key)) nodes.set(key, { name: key, depth, itemStyle: { color, borderWidth: 0 }, label: { width: depth === 2 ? ENDED - 20 : (colors.width - ENDED) / 2 - 24, overflow: "break", lineHeight: 15 } });
      return key;
    };
    const link = (source, target, value) => links.set(`${source}>${target}`, { source, target, value: value + (links.get(`${source}>${target}`)?.value ?? 0) });
    for (const each of found) {
      const parts = [node(0, plain(each.where, 40), colors.loss), node(1, plain(each.then, 40), colors.soft), node(2, each.ended, ended[each.ended] ?? colors.soft)];
      link(parts[0], parts[1], each.items);
      link(parts[1], parts[2], each.items);
    }
    const short = (name) => name.replace(/^\d:/, "");
    return base(colors, {
      series: [{
        type: "sankey", left: 4, right: ENDED, top: 8, bottom: 8, nodeWidth: 12, nodeGap: colors.width < 500 ? 26 : 12, draggable: false, emphasis: { focus: "adjacency" },
        data: [...nodes.values()], links: [...links.values()],
        lineStyle: { color: "source", opacity: 0.22, curveness: 0.5 },
        label: { color: colors.ink, fontSize: 12, formatter: (one) => `${short(one.name)}  ${one.value}` },
        tooltip: { formatter: (one) => (one.dataType === "edge" ? `${short(one.data.source)} → ${short(one.data.target)}: ${one.data.value}` : `${short(one.name)}: ${one.value}`) },
      }],
    });
  };
}
