"use strict";
// Redraws a chart's axis for the visible contestants, by the rules of axis.py. data-v has the values
// of an element in the order of its coordinates.
const drawAxis = (() => {
  const LOG_FROM = 30, NAME_PITCH = 15, LENGTH_MIN = 1.5;
  const UNITS = {
    count: [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
    time: [[1e6, " s"], [1e3, " ms"], [1, " µs"]],
    bytes: [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]],
    share: [[0.01, " %"]],
  };

  function label(value, unit) {
    const [size, name] = UNITS[unit].find(([least]) => value >= least * 0.9995) || UNITS[unit].at(-1);
    const number = value / size;
    if (number >= 99.95) return number.toFixed(0) + name;
    return (number >= 9.995 ? number.toFixed(1).replace(".0", "") : +number.toPrecision(2)) + name;
  }

  function roundValues(high) {
    const raw = high / 4, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
    return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, n) => n * step);
  }

  function powersOfTen(low, high) {
    const decades = Math.log10(high / low), found = [];
    const between = decades <= 2 ? [1, 2, 5] : decades <= 3 ? [1, 3] : [1];
    for (let n = Math.floor(Math.log10(low)); n <= Math.ceil(Math.log10(high)); n++) {
      found.push(...between.map((each) => each * 10 ** n));
    }
    return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  }

  function axisOf({ from, to, unit, scale, ticks: most }, known) {
    const positive = known.filter((value) => value > 0), least = Math.min(...positive);
    let low = 0, high = Math.max(0, ...known) || 1;
    const isLog = positive.length > 0 && (scale === "log" || (scale === "fitting" && high / least > LOG_FROM));
    if (isLog) {
      low = least / 1.25;
      high = Math.max(high * 1.15, low * 10);
    }
    const share = (value) => isLog ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : value / high;
    const step = unit === "bytes" ? UNITS.bytes.find(([each]) => high >= each || each === 1)[0] : 1;
    let ticks = isLog ? powersOfTen(low, high) : roundValues(high / step).map((each) => each * step);
    while (ticks.length > most) ticks = ticks.filter((_, n) => n % 2 === 0);
    return { isLog, ticks, from: +from, at: (value) => +from + (to - from) * share(value) };
  }

  function place(mark, values, { at, from }, side) {
    const set = (name, value) => mark.setAttribute(name, value.toFixed(1));
    const [a, b] = values.map(at);
    if (mark.tagName === "rect") set("width", Math.max(a - from, LENGTH_MIN));
    if (mark.tagName === "circle") set(`c${side}`, a);
    if (mark.tagName === "text") set(side, a);
    if (mark.tagName === "line") {
      set(`${side}1`, a);
      set(`${side}2`, b);
    }
    if (mark.tagName === "path") {
      const starts = mark.getAttribute("d").split("M").slice(1).map((each) => each.split(",")[0]);
      const [low, high] = [0, 1].map((end) => (n) => at(values[2 * n + end]).toFixed(1));
      mark.setAttribute("d", starts.map((x, n) => `M${x},${low(n)}V${high(n)}`).join(""));
    }
    if (mark.tagName === "polyline") {
      const points = mark.getAttribute("points").split(" ").map((each) => each.split(",")[0]);
      mark.setAttribute("points", points.map((x, n) => `${x},${at(values[n]).toFixed(1)}`).join(" "));
    }
  }

  // Moves names at the ends of lines apart if the lines end close together.
  function spread(names, at, lowest) {
    names.sort((a, b) => b.dataset.v - a.dataset.v);
    let last = -Infinity, limit = lowest;
    const places = names.map((each) => (last = Math.max(at(+each.dataset.v), last + NAME_PITCH)));
    for (let n = places.length - 1; n >= 0; n--) {
      places[n] = Math.min(places[n], limit);
      limit = places[n] - NAME_PITCH;
      const x = names[n].getAttribute("transform").match(/[\d.]+/)[0];
      names[n].setAttribute("transform", `translate(${x},${places[n].toFixed(1)})`);
    }
  }

  return (chart) => {
    const side = chart.dataset.axis;
    const marks = [...chart.querySelectorAll("[data-v]")].filter((each) => !each.closest("[hidden]"));
    if (!marks.length) return;
    const values = new Map(marks.map((each) => [each, each.dataset.v.split(" ").map(Number)]));
    const axis = axisOf(chart.dataset, [...values.values()].flat());
    for (const [mark, found] of values) place(mark, found, axis, side);
    spread(marks.filter((each) => each.classList.contains("name")), axis.at, axis.from);
    const [first, ...rest] = chart.querySelectorAll("g.tick");
    for (const tick of axis.ticks) {
      const next = first.cloneNode(true), at = axis.at(tick).toFixed(1);
      next.setAttribute("transform", `translate(${side === "x" ? `${at},0` : `0,${at}`})`);
      next.lastChild.textContent = label(tick, chart.dataset.unit);
      first.before(next);
    }
    [first, ...rest].forEach((each) => each.remove());
    chart.querySelector(".log")?.toggleAttribute("hidden", !axis.isLog);
  };
})();
