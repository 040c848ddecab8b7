/**
 * What screens are made of: tables, windows of long listings, dialogs, forms, charts.
 *
 * Rule 1: text goes into text nodes; no component takes markup.
 * Rule 2: everything that can be done with a pointer can be done with the keyboard.
 */

import { Component, h, createRef } from "./vendor/preact.module.js";
import htm from "./vendor/htm.module.js";
import { Problem } from "./api.js";

export { Component, createRef };
export const html = htm.bind(h);

/** A screen: it loads, loads again every few seconds, and shows problems. Subclasses have `load` and `show`. */
export class Screen extends Component {
  /** How often to load again; 0 never. */
  every = 5000;

  componentDidMount() {
    this.again();
  }

  componentDidUpdate(before) {
    if (before.name !== this.props.name) {
      this.setState({ data: null, problem: null });
      this.again();
    }
  }

  componentWillUnmount() {
    this.isGone = true;
    clearTimeout(this.timer);
    this.aborting?.abort();
  }

  /** Load now, and go on every few seconds while the page is seen. */
  again = async () => {
    clearTimeout(this.timer);
    this.aborting?.abort();
    const aborting = (this.aborting = new AbortController());
    if (!document.hidden || !this.state.data) {
      try {
        const data = await this.load(aborting.signal);
        if (aborting.signal.aborted) return;
        this.setState({ data, problem: null });
      } catch (fault) {
        if (fault.name === "AbortError" || aborting.signal.aborted) return;
        if (!(fault instanceof Problem)) console.error(fault);
        this.setState({ problem: fault });
      }
    }
    if (!this.isGone && this.every) this.timer = setTimeout(this.again, this.every);
  };

  render() {
    const { data, problem } = this.state;
    return html`
      ${problem && html`<${Refusal} problem=${problem} />`}
      ${data ? this.show(data) : problem ? null : html`<p class="quiet" role="status">Loading …</p>`}
    `;
  }
}

/** Why something was refused. */
export function Refusal({ problem }) {
  const error = problem.document?.error;
  return html`<div class="refusal" role="alert">${problem.message}${error ? html` <code>${error}</code>` : null}</div>`;
}

export function Header({ title, note, children, back }) {
  return html`
    <header class="title">
      <div>
        ${back && html`<a class="back" href=${back.href}>${back.label}</a>`}
        <h1 tabindex="-1">${title}</h1>
        ${note && html`<p class="quiet">${note}</p>`}
      </div>
      <div class="actions">${children}</div>
    </header>
  `;
}

/** Numbers that matter: [{label, value, note, tone}]. */
export function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts.map(
      (one) => html`<div class=${one.tone || ""}><dt>${one.label}</dt><dd>${one.value}${one.note && html`<small>${one.note}</small>`}</dd></div>`
    )}
  </dl>`;
}

export function Badge({ text, tone }) {
  return html`<span class="badge ${tone || ""}">${text}</span>`;
}

/** A card with a heading. */
export function Panel({ title, children, actions }) {
  return html`<section class="panel">
    <div class="panel-head"><h2>${title}</h2><div class="actions">${actions}</div></div>
    ${children}
  </section>`;
}

/** Columns: {label, cell(row), isNumber, sort}. A click on a heading sorts where `onSort` is given. */
function Heads({ columns, sort, isReverse, onSort }) {
  return html`<tr>
    ${columns.map((column) => {
      const isSorted = sort && column.sort === sort;
      const direction = isSorted ? ((column.sort === "name") === isReverse ? "descending" : "ascending") : undefined;
      const shown = isSorted ? (column.sort === "name" ? (isReverse ? "descending" : "ascending") : isReverse ? "ascending" : "descending") : undefined;
      return html`<th scope="col" class=${column.isNumber ? "number" : ""} aria-sort=${shown ?? direction}>
        ${column.sort && onSort
          ? html`<button class="sort" onClick=${() => onSort(column.sort)}>${column.label}<span aria-hidden="true">${shown === "ascending" ? " ↑" : shown === "descending" ? " ↓" : ""}</span></button>`
          : column.label || html`<span class="hidden">More</span>`}
      </th>`;
    })}
  </tr>`;
}

function Cells({ columns, row }) {
  return columns.map((column) => html`<td class=${column.isNumber ? "number" : column.isMono ? "mono" : ""}>${column.cell(row)}</td>`);
}

/** A table of all its rows. */
export function Table({ columns, rows, label, empty, keyOf }) {
  if (!rows.length) return html`<p class="quiet empty">${empty || "Nothing here."}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead><${Heads} columns=${columns} /></thead>
      <tbody>${rows.map((row, at) => html`<tr key=${keyOf ? keyOf(row) : at}><${Cells} columns=${columns} row=${row} /></tr>`)}</tbody>
    </table>
  </div>`;
}

const ROW_PX = 37;
const PAGE = 100;
const AROUND = 12;

/** A window of a long listing: rows are fetched where the reader looks, and again every few seconds.
 * `fetchPage(offset, limit, signal)` returns {rows, total}; another `viewKey` is another listing. */
export class LongTable extends Component {
  state = { top: 0, height: innerHeight, pages: new Map(), total: null, problem: null };
  box = createRef();
  pending = new Set();

  componentDidMount() {
    addEventListener("resize", this.measure);
    this.refresh();
  }

  componentDidUpdate(before) {
    if (before.viewKey !== this.props.viewKey) {
      this.aborting?.abort();
      this.pending.clear();
      if (this.box.current) this.box.current.scrollTop = 0;
      this.setState({ top: 0 });
      this.refresh(true);
    } else this.fetchMissing();
  }

  componentWillUnmount() {
    this.isGone = true;
    clearTimeout(this.timer);
    this.aborting?.abort();
    removeEventListener("resize", this.measure);
  }

  /** The box is never higher than the window. */
  measure = () => this.setState({ height: innerHeight });

  /** The browser may still tell of a box that is gone. */
  onScroll = () => this.box.current && this.setState({ top: this.box.current.scrollTop });

  seen() {
    const first = Math.max(0, Math.floor(this.state.top / ROW_PX) - AROUND);
    const last = Math.min(this.state.total ?? PAGE, Math.ceil((this.state.top + this.state.height) / ROW_PX) + AROUND);
    return [first, Math.max(first, last)];
  }

  pagesSeen() {
    const [first, last] = this.seen();
    const numbers = [];
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.max(last, 1); page += 1) numbers.push(page);
    return numbers;
  }

  refresh = async (isNew = false) => {
    clearTimeout(this.timer);
    this.aborting?.abort();
    const aborting = (this.aborting = new AbortController());
    this.pending.clear();
    if (!document.hidden || isNew || this.state.total === null) {
      try {
        const wanted = isNew ? [0] : this.pagesSeen();
        const found = await Promise.all(wanted.map((page) => this.props.fetchPage(page * PAGE, PAGE, aborting.signal)));
        if (aborting.signal.aborted) return;
        const pages = new Map(wanted.map((page, at) => [page, found[at].rows]));
        this.setState({ pages, total: found[0].total, problem: null });
        this.props.onTotal?.(found[0].total);
      } catch (fault) {
        if (fault.name === "AbortError" || aborting.signal.aborted) return;
        this.setState({ problem: fault });
      }
    }
    if (!this.isGone) this.timer = setTimeout(this.refresh, 5000);
  };

  fetchMissing() {
    for (const page of this.pagesSeen()) {
      if (this.state.total === null || this.state.pages.has(page) || this.pending.has(page)) continue;
      this.pending.add(page);
      const { signal } = this.aborting;
      this.props.fetchPage(page * PAGE, PAGE, signal).then(
        ({ rows, total }) => {
          if (signal.aborted) return;
          this.pending.delete(page);
          this.setState(({ pages }) => ({ pages: new Map(pages).set(page, rows), total }));
        },
        (fault) => signal.aborted || this.setState({ problem: fault })
      );
    }
  }

  render({ columns, label, empty, sort, isReverse, onSort, keyOf }, { pages, total, problem }) {
    if (problem && total === null) return html`<${Refusal} problem=${problem} />`;
    const [first, last] = this.seen();
    const rows = [];
    for (let at = first; at < Math.min(last, total ?? 0); at += 1) rows.push([at, pages.get(Math.floor(at / PAGE))?.[at % PAGE]]);
    const span = columns.length;
    return html`
      ${problem && html`<${Refusal} problem=${problem} />`}
      <div class="scroll long" ref=${this.box} onScroll=${this.onScroll} tabindex="0" role="region" aria-label=${label}>
        <table class="fixed" aria-rowcount=${(total ?? 0) + 1}>
          <thead><${Heads} columns=${columns} sort=${sort} isReverse=${isReverse} onSort=${onSort} /></thead>
          <tbody>
            ${first > 0 && html`<tr key="above" aria-hidden="true"><td class="space" colspan=${span} style=${{ height: `${first * ROW_PX}px` }}></td></tr>`}
            ${rows.map(([at, row]) =>
              row
                ? html`<tr key=${keyOf(row)} aria-rowindex=${at + 2}><${Cells} columns=${columns} row=${row} /></tr>`
                : html`<tr key=${`#${at}`} aria-rowindex=${at + 2}><td class="quiet" colspan=${span}>…</td></tr>`
            )}
            ${total !== null && last < total && html`<tr key="below" aria-hidden="true"><td class="space" colspan=${span} style=${{ height: `${(total - last) * ROW_PX}px` }}></td></tr>`}
          </tbody>
        </table>
        ${total === null && html`<p class="quiet empty" role="status">Loading …</p>`}
        ${total === 0 && html`<p class="quiet empty">${empty}</p>`}
      </div>
    `;
  }
}

/** A modal window: the browser's own dialog keeps the focus, and Escape closes it. */
export class Dialog extends Component {
  box = createRef();
  number = (Dialog.numbers = (Dialog.numbers ?? 0) + 1);

  /** The browser moves the focus to what has `autofocus`; on a busy machine the screen behind may have it again. */
  componentDidMount() {
    this.box.current.showModal();
    this.box.current.querySelector("[autofocus]")?.focus();
  }

  render({ title, children, onClose, isWide }) {
    const id = `dialog-${this.number}`;
    return html`<dialog ref=${this.box} class=${isWide ? "wide" : ""} aria-labelledby=${id} onClose=${onClose}>
      <div class="dialog-head">
        <h2 id=${id}>${title}</h2>
        <button class="plain" aria-label="Close" onClick=${() => this.box.current.close()}>✕</button>
      </div>
      ${children}
    </dialog>`;
  }
}

/** A form that does something at the broker: it shows what was refused, and closes when it is done. */
export class Doing extends Component {
  state = { problem: null, isBusy: false };
  form = createRef();

  /** In a window that changes, the focus would be lost with what was there before. */
  componentDidMount() {
    if (document.activeElement === document.body || document.activeElement?.tagName === "DIALOG") {
      (this.form.current.querySelector("[autofocus]") ?? this.form.current.querySelector("button:last-of-type"))?.focus();
    }
  }

  onSubmit = async (event) => {
    event.preventDefault();
    this.setState({ isBusy: true, problem: null });
    try {
      await this.props.act(Object.fromEntries(new FormData(event.target)));
    } catch (fault) {
      if (!(fault instanceof Problem)) console.error(fault);
      this.setState({ problem: fault });
    }
    this.setState({ isBusy: false });
  };

  render({ children, label, tone, extra }, { problem, isBusy }) {
    return html`<form class="form" ref=${this.form} onSubmit=${this.onSubmit}>
      ${children}
      ${problem && html`<${Refusal} problem=${problem} />`}
      <div class="form-end">${extra}<button class=${tone || "main"} disabled=${isBusy}>${label}</button></div>
    </form>`;
  }
}

/** A labelled input. */
export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

/** Asks before something is done that cannot be undone. */
export function Confirm({ title, text, label, act, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <${Doing} label=${label} tone="danger" act=${async () => { await act(); onClose(); }}><p>${text}</p><//>
  <//>`;
}

/** The search of a listing; `/` brings the focus here. */
export function Search({ value, onInput, label }) {
  return html`<input type="search" class="search" data-search aria-label=${label} placeholder=${label} value=${value} onInput=${(event) => onInput(event.target.value)} autocomplete="off" spellcheck=${false} />`;
}

/** A link to another part of the same subject. */
export function Tabs({ tabs, current }) {
  return html`<nav class="tabs" aria-label="Parts">
    ${tabs.map((tab) => html`<a href=${tab.href} aria-current=${tab.id === current ? "page" : undefined}>${tab.label}</a>`)}
  </nav>`;
}

/** A chart over time: series [{label, color, values, format}] at `times` in seconds. uPlot is fetched when the first is seen. */
export class Chart extends Component {
  box = createRef();

  componentDidMount() {
    this.begin();
  }

  /** Draw once there are points, and a library to draw with. */
  async begin() {
    if (this.hasBegun || this.props.times.length < 2) return;
    this.hasBegun = true;
    let Plot;
    try {
      ({ default: Plot } = await import("./vendor/uPlot.esm.js"));
    } catch (fault) {
      // A browser whose language is none (`en-US@posix`): numbers instead of lines.
      console.info(`no chart: ${fault.message}`);
      this.setState({ cannotDraw: true });
      return;
    }
    if (this.isGone) return;
    this.Plot = Plot;
    this.draw();
    this.watcher = new ResizeObserver(() => this.plot?.setSize({ width: this.box.current.clientWidth, height: this.props.height ?? 180 }));
    this.watcher.observe(this.box.current);
    this.onTheme = () => this.draw();
    addEventListener("themechange", this.onTheme);
  }

  componentDidUpdate() {
    this.plot?.setData(this.data());
    this.begin();
  }

  componentWillUnmount() {
    this.isGone = true;
    this.watcher?.disconnect();
    removeEventListener("themechange", this.onTheme);
    this.plot?.destroy();
  }

  data() {
    return [this.props.times, ...this.props.series.map((one) => one.values)];
  }

  draw() {
    this.plot?.destroy();
    const look = getComputedStyle(document.documentElement);
    const color = (name) => look.getPropertyValue(name).trim();
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const scales = { x: { time: true }, y: { range: (plot, least, most) => [0, most > 0 ? most * 1.1 : 1] } };
    const options = {
      width: this.box.current.clientWidth,
      height: this.props.height ?? 180,
      scales,
      legend: { show: true, live: true },
      cursor: { points: { size: 6 } },
      series: [
        { value: (plot, at) => (at ? new Date(at * 1000).toLocaleTimeString() : "–") },
        ...this.props.series.map((one, at) => ({
          label: one.label,
          stroke: color(at ? "--second" : "--accent"),
          fill: at ? undefined : color("--accent-soft"),
          width: 2,
          points: { show: this.props.times.length < 3 },
          value: (plot, value) => (value === null || value === undefined ? "–" : one.format(value)),
        })),
      ],
      axes: [axis, { ...axis, size: 70, values: (plot, values) => values.map((value) => this.props.series[0].format(value)) }],
    };
    this.plot = new this.Plot(options, this.data(), this.box.current);
  }

  render({ label, series, times }) {
    if (times.length < 2) return html`<p class="quiet">The first points come in a moment.</p>`;
    const newest = series.map((one) => `${one.label} ${one.values.length ? one.format(one.values.at(-1)) : "unknown"}`).join(", ");
    return html`<figure class="chart"><figcaption class=${this.state.cannotDraw ? "quiet" : "hidden"}>${label}: ${newest}, ${times.length} points</figcaption><div ref=${this.box} aria-hidden="true"></div></figure>`;
  }
}

/** Says a change aloud, and shows it for a moment. */
export function say(text) {
  dispatchEvent(new CustomEvent("say", { detail: text }));
}
