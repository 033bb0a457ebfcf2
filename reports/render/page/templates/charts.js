// Data and colours → Vega-Lite specifications, by kind of chart. Pure: nothing here touches the page.
"use strict";

const CHARTS = (() => {
  const SIDES = ["base", "head"];
  const BAR = 16; // pixels of a bar of an implementation
  const GAP = 12; // and between two of them
  const LABEL = 160; // pixels that an implementation's name has at least: some 25 letters, also on a phone
  const LABELS = 0.4; // and the part of the chart's width that it may take
  const NARROW = 700; // pixels under which a chart of the device's peaks leaves its labels out

  function spec(colours, description, parts) {
    const axis = { labelColor: colours.dim, titleColor: colours.dim, gridColor: colours.line, domainColor: colours.line, tickColor: colours.line, titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12 };
    return {
      $schema: "https://vega.github.io/schema/vega-lite/v6.json",
      description,
      width: "container",
      autosize: { type: "fit-x", contains: "padding" },
      background: null,
      config: {
        font: "system-ui, Liberation Sans, sans-serif",
        view: { stroke: null },
        axis,
        legend: { labelColor: colours.ink, titleColor: colours.dim, orient: "top", title: null, labelFontSize: 12, symbolStrokeWidth: 2 },
      },
      ...parts,
    };
  }

  const sideColour = (colours) => ({ field: "side", type: "nominal", scale: { domain: SIDES, range: [colours.base, colours.head] }, legend: { title: null } });
  const present = (values) => SIDES.filter((side) => values.some((each) => each.side === side));
  const legendOf = (encoding, values) => (present(values).length > 1 ? encoding : { ...encoding, legend: null });

  // Places the launches of a round beside each other, around its number.
  function placed(launches) {
    const sizes = new Map();
    for (const each of launches) sizes.set(each.round, (sizes.get(each.round) || 0) + 1);
    const seen = new Map();
    return launches.map((each) => {
      const at = seen.get(each.round) || 0;
      seen.set(each.round, at + 1);
      const note = each.time === null ? "no number" : each.held ? "clocks held back" : "";
      return { ...each, note, x: each.round + (at - (sizes.get(each.round) - 1) / 2) * 0.35 };
    });
  }

  function launches({ rounds }, colours) {
    const values = placed(rounds.launches);
    const time = `time in ${rounds.unit}`;
    const colour = legendOf(sideColour(colours), values);
    const x = { field: "x", type: "quantitative", title: "round", scale: { zero: false, nice: false, padding: 14 }, axis: { grid: false, tickMinStep: 1, format: "d" } };
    const tooltip = [{ field: "side" }, { field: "round" }, { field: "time", title: time, format: ".6~g" }];
    const said = [{ field: "side" }, { field: "round" }, { field: "note" }];
    const y = { field: "time", type: "quantitative", title: time, scale: { zero: false, padding: 8 } };
    const kept = values.filter((each) => each.time !== null);
    const layers = [
      { data: { values: kept }, mark: { type: "point", size: 55, strokeWidth: 1.8, filled: false }, encoding: { x, y, color: colour, shape: { ...legendOf({ field: "side", type: "nominal", scale: { domain: SIDES, range: ["circle", "square"] }, legend: { title: null } }, values) }, fill: { condition: { test: "datum.side === 'head'", value: colours.head }, value: "transparent" }, tooltip } },
    ];
    const held = kept.filter((each) => each.held);
    if (held.length) layers.push({ data: { values: held }, mark: { type: "point", size: 190, strokeWidth: 1.5 }, encoding: { x, y, color: { value: colours.bad }, tooltip: said } });
    const lost = values.filter((each) => each.time === null);
    if (lost.length) layers.push({ data: { values: lost }, mark: { type: "text", text: "×", fontSize: 16 }, encoding: { x, y: { value: 232 }, color: { value: colours.bad }, tooltip: said } });
    const known = present(values).map((side) => `${kept.filter((each) => each.side === side).length} of ${side}`);
    return spec(colours, `Launches with a time: ${known.join(", ")}; times in ${rounds.unit}, by round.`, { height: 240, layer: layers });
  }

  function spread({ rounds }, colours) {
    const values = rounds.spread.bins;
    return spec(colours, `Share of the samples by time in ${rounds.unit}, for each side.`, {
      height: 180,
      data: { values },
      mark: { type: "bar", opacity: 0.55, stroke: null, binSpacing: 0 },
      encoding: {
        x: { field: "low", type: "quantitative", bin: { binned: true }, title: `time in ${rounds.unit}`, scale: { zero: false, nice: false }, axis: { grid: false } },
        x2: { field: "high" },
        y: { field: "share", type: "quantitative", stack: null, title: "share of its samples", axis: { format: ".0%", tickCount: 4 } },
        color: legendOf(sideColour(colours), values),
        tooltip: [{ field: "side" }, { field: "low", format: ".6~g" }, { field: "high", format: ".6~g" }, { field: "share", format: ".1%" }],
      },
    });
  }

  function change({ change: found }, colours) {
    const x = { type: "quantitative", title: "change of head against base", axis: { format: "+.2~%", tickCount: 6 } };
    const of = (field) => ({ ...x, field });
    const { equivalence, min_effect: effect } = found;
    const [low, high] = found.interval;
    return spec(colours, `Change and its 95 % interval, with each round's own difference.`, {
      height: 70,
      layer: [
        { data: { values: [{ low: -equivalence, high: equivalence }] }, mark: { type: "rect", color: colours.line, opacity: 0.45 }, encoding: { x: of("low"), x2: { field: "high" } } },
        { data: { values: [{ at: -effect }, { at: effect }] }, mark: { type: "rule", strokeDash: [4, 3], color: colours.dim }, encoding: { x: of("at") } },
        { data: { values: [{ at: 0 }] }, mark: { type: "rule", color: colours.dim }, encoding: { x: of("at") } },
        ...(found.rounds.length ? [{ data: { values: found.rounds }, mark: { type: "tick", size: 16, thickness: 1.5, color: colours.head, opacity: 0.75 }, encoding: { x: of("change"), y: { value: 52 }, tooltip: [{ field: "round" }, { field: "change", format: "+.2%" }] } }] : []),
        { data: { values: [{ low, high }] }, mark: { type: "rule", strokeWidth: 3, color: colours.ink }, encoding: { x: of("low"), x2: { field: "high" }, y: { value: 24 } } },
        { data: { values: [{ change: found.change }] }, mark: { type: "point", filled: true, size: 90, color: colours.ink, opacity: 1 }, encoding: { x: of("change"), y: { value: 24 }, tooltip: [{ field: "change", format: "+.2%" }] } },
      ],
    });
  }

  function implementations({ implementations: found }, colours, width) {
    const values = found.bars;
    const y = { field: "name", type: "nominal", title: null, sort: null, axis: { labelLimit: Math.max(LABEL, width * LABELS), ticks: false } };
    const offset = present(values).length > 1 ? { yOffset: { field: "side", scale: { domain: SIDES } } } : {};
    const x = { field: "time", type: "quantitative", title: `time in ${found.unit}`, axis: { tickCount: 8 } };
    const tooltip = ["name", "side", "time", "p10", "p90"].map((field) => ({ field }));
    return spec(colours, `Times of the implementations in ${found.unit}.`, {
      height: new Set(values.map((each) => each.name)).size * (present(values).length * BAR + GAP),
      data: { values },
      layer: [
        { mark: { type: "bar", opacity: 0.8 }, encoding: { y, ...offset, x, color: legendOf(sideColour(colours), values), tooltip } },
        { mark: { type: "rule", strokeWidth: 2, color: colours.ink }, encoding: { y, ...offset, x: { field: "p10", type: "quantitative" }, x2: { field: "p90" }, tooltip } },
      ],
    });
  }

  function machine(field, title) {
    return (values, colours) => {
      const known = values.filter((each) => each[field] !== undefined);
      const held = known.filter((each) => each.held);
      const encoding = { x: { field: "launch", type: "quantitative", title: "launch", axis: { grid: false, tickMinStep: 1, format: "d" }, scale: { zero: false, nice: false, padding: 10 } }, y: { field, type: "quantitative", title, scale: { zero: false }, axis: { tickMinStep: 1 } } };
      const tooltip = [{ field: "launch" }, { field: "side" }, { field: "round" }, { field, title }];
      return spec(colours, `${title} in each launch.`, {
        height: 160,
        data: { values: known },
        layer: [
          { mark: { type: "line", color: colours.line }, encoding },
          { mark: { type: "point", filled: true, size: 35, opacity: 1 }, encoding: { ...encoding, color: legendOf(sideColour(colours), known), tooltip } },
          ...(held.length ? [{ data: { values: held }, mark: { type: "point", size: 150, color: colours.bad }, encoding }] : []),
        ],
      });
    };
  }

  function overview(rows, colours) {
    const tones = { regressed: colours.bad, improved: colours.good, inconclusive: colours.open };
    const values = rows.map((each, at) => ({ ...each, at: at + 1, low: each.interval[0], high: each.interval[1] }));
    const names = Object.keys(tones).filter((name) => values.some((each) => each.verdict === name));
    const quiet = [...new Set(values.map((each) => each.verdict))].filter((name) => !(name in tones));
    const domain = [...names, ...quiet];
    const encoding = {
      x: { field: "at", type: "quantitative", title: null, scale: { domain: [0, values.length + 1], nice: false }, axis: null },
      color: { field: "verdict", type: "nominal", scale: { domain, range: domain.map((name) => tones[name] || colours.quiet) }, legend: { title: null, columns: 3 } },
      tooltip: [{ field: "name", title: "case" }, { field: "verdict" }, { field: "change", format: "+.2%" }, { field: "low", format: "+.2%" }, { field: "high", format: "+.2%" }],
    };
    const y = { type: "quantitative", title: "change", axis: { format: "+.2~%", tickCount: 5 } };
    return spec(colours, `Changes of ${values.length} rows with their intervals.`, {
      height: 150,
      data: { values },
      layer: [
        { data: { values: [{ zero: 0 }] }, mark: { type: "rule", color: colours.dim }, encoding: { y: { ...y, field: "zero" } } },
        { mark: { type: "rule", strokeWidth: 2, cursor: "pointer" }, encoding: { ...encoding, y: { ...y, field: "low" }, y2: { field: "high" } } },
        { mark: { type: "point", filled: true, size: 40, opacity: 1, cursor: "pointer" }, encoding: { ...encoding, y: { ...y, field: "change" } } },
      ],
    });
  }

  // A part of a specification with colours in place of their names, such as "@ink".
  function coloured(part, colours) {
    if (Array.isArray(part)) return part.map((each) => coloured(each, colours));
    if (part && typeof part === "object") return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, coloured(value, colours)]));
    return typeof part === "string" && part.startsWith("@") ? colours[part.slice(1)] || part : part;
  }

  // Specifications that came with the data: names of lines and cases have no room where it is narrow.
  function ceilings(description) {
    return (parts, colours, width) => {
      if (width >= NARROW) return spec(colours, description, coloured(parts, colours));
      const [margin] = parts.layer; // where the names of lines stand
      const x = { ...parts.encoding.x, scale: { ...parts.encoding.x.scale, domain: [parts.encoding.x.scale.domain[0], margin.data.values[0].x] } };
      const layer = parts.layer.filter((each) => !["rect", "rule", "text"].includes(each.mark.type));
      return spec(colours, description, coloured({ ...parts, encoding: { ...parts.encoding, x }, layer }, colours));
    };
  }

  const roofline = ceilings("Operations a second over operations a byte: roofs of the device, and the cases.");
  const bandwidth = ceilings("Bytes a second over the bytes that a call moves: peaks of the device, and the cases.");
  return { roofline, bandwidth, launches, spread, change, implementations, overview, clock: machine("clock", "SM clock in MHz"), temperature: machine("temperature", "temperature in °C") };
})();
