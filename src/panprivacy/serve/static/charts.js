// Pictures by Plotly, whose script the service takes from the installed package.
//
// The policy of the page lets no script write style sheets. Plotly takes ours (charts.css). That of its maps, of which
// there are none here, it writes unless there is an element with the hash of the sheet for its id.

import { errorOf, inWords, writerFor } from "./numbers.js";

const HEIGHT = 300;
const LEGEND = 60; // more, where there are several lines
const BAR = 34;
const THIN_BAR = 20;
const MANY_BARS = 8;
const beside = matchMedia("(min-width: 60rem)"); // bars stand beside the series, and are as high
const FEW = 40; // points that are marked one by one
const HASH = /^[0-9a-f]{64}$/;

let loaded = null;

/** Plotly, or null where it is not installed: the page is then numbers and tables. It is loaded for the first chart. */
function plotly() {
  loaded ??= new Promise((found) => {
    const script = document.createElement("script");
    script.src = "static/plotly.min.js";
    document.getElementById = (id) => (HASH.test(id) ? document.head : Document.prototype.getElementById.call(document, id));
    const done = (library) => {
      delete document.getElementById; // the one of the prototype is back
      found(library);
    };
    script.onload = () => done(window.Plotly);
    script.onerror = () => done(null);
    document.head.append(script);
  });
  return loaded;
}

/** The colours of the style sheet, which differ between light and dark. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: named("ink"), faint: named("faint"), rule: named("rule"), card: named("card"), font: style.fontFamily,
    lines: Array.from({ length: 7 }, (_, i) => named(`line-${i + 1}`)),
  };
}

const CONFIG = { displayModeBar: false, responsive: true, showTips: false };

function layoutOf(colour, more) {
  const axis = {
    gridcolor: colour.rule, linecolor: colour.rule, zerolinecolor: colour.rule, tickcolor: colour.rule,
    fixedrange: true,
  };
  const { xaxis, yaxis, ...rest } = more;
  return {
    font: { family: colour.font, size: 12, color: colour.faint },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 12, t: 8, b: 8 },
    hoverlabel: { bgcolor: colour.card, bordercolor: colour.rule, font: { color: colour.ink, family: colour.font } },
    showlegend: false,
    dragmode: false,
    // Labels of an axis move the margins across it alone: one that moved both could move them to and fro without end.
    xaxis: { ...axis, automargin: "height", ...xaxis },
    yaxis: { ...axis, automargin: "width", ...yaxis },
    ...rest,
  };
}

/** Shares are drawn as percentages, and written as the rest of the page writes them. */
const scaleOf = (unit) => (unit === "share" ? 100 : 1);
const ticksOf = (unit) => ({ tickformat: ",.10~g", ticksuffix: unit === "share" ? "%" : "" });
const times = (number, by) => (number === null ? null : number * by);
const scaled = (point, by) => ({
  ...point, value: times(point.value, by), low: times(point.low, by), high: times(point.high, by),
});

/** Lines over time, each with the band of its intervals: `lines` have a name and points {moment, value, low, high}. */
export function drawSeries(place, lines, unit) {
  const colour = colours();
  const traces = lines.flatMap((line, i) => bandAndLine(line, unit, colour, i, lines.length > 1));
  return draw(place, traces, layoutOf(colour, {
    height: lines.length > 1 ? HEIGHT + LEGEND : HEIGHT,
    hovermode: "x unified",
    showlegend: lines.length > 1,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: colour.ink } },
    xaxis: { type: "date", showgrid: false, ...roomAround(lines[0].points) },
    yaxis: { ...ticksOf(unit), zeroline: false, rangemode: "nonnegative" },
  }));
}

/** An hour around points of one moment, which have no range of their own; a minute around those of some seconds. */
function roomAround(points) {
  const moments = points.map((point) => point.moment.getTime());
  const [first, last] = [Math.min(...moments), Math.max(...moments)];
  if (!points.length || last - first >= 6e4) return {};
  const room = last > first ? 3e4 : 18e5;
  return { range: [new Date(first - room), new Date(last + room)], nticks: 4 };
}

function bandAndLine({ name, points: given }, unit, colour, i, many) {
  const points = given.map((point) => scaled(point, scaleOf(unit)));
  const shade = colour.lines[i % colour.lines.length];
  const x = points.map((point) => point.moment);
  const unseen = { hoverinfo: "skip", showlegend: false };
  const edge = { x, mode: "lines", line: { width: 0, color: shade }, legendgroup: name, ...unseen };
  const line = {
    x, y: points.map((point) => point.value), name: escaped(cut(name)), legendgroup: name,
    mode: points.length > FEW ? "lines" : "lines+markers",
    line: { color: shade, width: 2, dash: points.every((point) => point.noisy) ? "dot" : "solid" },
    marker: { color: shade, size: 6, symbol: points.map((point) => (point.noisy ? "circle-open" : "circle")) },
    text: given.map(inWords),
    hovertemplate: many ? `${escaped(name)}: %{text}<extra></extra>` : "%{text}<extra></extra>",
  };
  if (points.length === 1) line.error_y = errorBars(points, shade); // a band of one point cannot be seen
  return [
    { ...edge, y: points.map((point) => point.low) },
    { ...edge, y: points.map((point) => point.high), fill: "tonexty", fillcolor: withAlpha(shade, many ? 0.12 : 0.22) },
    line,
  ];
}

/**
 * Horizontal bars with their intervals: `bars` have a label, value, low and high. The first `asLines` are coloured as
 * lines. What is mostly noise is pale, and does not decide how long the others are.
 */
export function drawBars(place, bars, unit, asLines = 0) {
  const colour = colours();
  const drawn = bars.map((bar) => scaled(bar, scaleOf(unit)));
  const labels = bars.map((bar) => escaped(cut(String(bar.label))));
  const colourOf = (i) => (asLines === 0 ? colour.lines[0] : i < asLines ? colour.lines[i] : colour.faint);
  const clear = drawn.filter((bar) => !bar.noisy).map((bar) => 1.05 * (bar.high ?? bar.value));
  const range = clear.length && clear.length < bars.length ? { range: [0, Math.max(...clear)] } : { rangemode: "tozero" };
  const trace = {
    type: "bar", orientation: "h", y: labels.map((_, i) => i), x: drawn.map((bar) => bar.value),
    width: 0.6, marker: { color: bars.map((bar, i) => withAlpha(colourOf(i), bar.noisy ? 0.25 : 0.75)) },
    error_x: errorBars(drawn, colour.ink),
    text: bars.map((bar) => `${escaped(String(bar.label))}: ${inWords(bar)}`),
    textposition: "none", hovertemplate: "%{text}<extra></extra>",
  };
  const values = bars.map((bar, i) => ({
    x: 1, xref: "paper", xanchor: "left", xshift: 8, y: i, text: writerFor(bar.unit, errorOf(bar))(bar.value), showarrow: false,
    font: { color: colour.ink },
  }));
  return draw(place, [trace], layoutOf(colour, {
    height: Math.max((bars.length > MANY_BARS ? THIN_BAR : BAR) * bars.length + 56, beside.matches ? HEIGHT : 120),
    margin: { l: 8, r: 72, t: 8, b: 8 },
    annotations: values,
    xaxis: { ...ticksOf(unit), ...range, nticks: 4, tickangle: 0 },
    yaxis: {
      tickvals: labels.map((_, i) => i), ticktext: labels, ticks: "", autorange: "reversed",
      showgrid: false, zeroline: false, tickfont: { color: colour.ink }, ticklabelstandoff: 6,
    },
  }));
}

function errorBars(points, color) {
  const known = points.filter((point) => point.low !== null && point.high !== null).length === points.length;
  return {
    type: "data", symmetric: false, visible: known, color, thickness: 1.2, width: 4,
    array: points.map((point) => Math.max(point.high - point.value, 0)),
    arrayminus: points.map((point) => Math.max(point.value - point.low, 0)),
  };
}

/** Draw; false where Plotly is missing. */
async function draw(place, traces, layout) {
  const library = await plotly();
  if (library === null) {
    place.textContent = "Charts need Plotly, which this service does not have; the table has the same numbers.";
    return false;
  }
  await library.react(place, traces, layout, CONFIG);
  return true;
}

/** A chart that is drawn, under its title, as the address of a PNG. */
export async function pictureOf(place, title) {
  const { card, ink } = colours();
  const { data, layout, offsetWidth: width } = place;
  const lines = title.match(new RegExp(`.{1,${Math.max(Math.floor(width / 8), 20)}}(\\s|$)`, "g")) ?? [title];
  const room = 20 * lines.length + 32;
  const height = place.offsetHeight + room;
  const head = { text: lines.map(escaped).join("<br>"), font: { size: 14, color: ink }, x: 10 / width, y: 1 - 24 / height, yanchor: "top" };
  const under = { ...layout.legend, y: -0.15, yanchor: "top" };
  const titled = { ...layout, title: head, legend: under, height, paper_bgcolor: card, margin: { ...layout.margin, t: room } };
  const library = await plotly();
  return library.toImage({ data, layout: titled, config: CONFIG }, { format: "png", width, height, scale: 2 });
}

/** A colour of the style sheet, #rrggbb, let through. */
function withAlpha(colour, alpha) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${alpha})`;
}

/** Plotly reads some HTML in its texts; names of groups are none. */
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("%{", "% {");

const LONGEST = 24; // letters of a label: a longer one would leave no room for its bar
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
