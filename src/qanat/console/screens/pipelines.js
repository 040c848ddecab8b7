/** Runs of Spark pipelines: progress, lag, the last error. */

import { get, path } from "../api.js";
import { Badge, Facts, Header, Screen, Table, html } from "../widgets.js";
import { count, rate, seconds, short, time } from "../formats.js";

const TONES = { running: "good", starting: "good", failed: "bad", lost: "bad", restarting: "warn" };

export default function Pipelines({ name }) {
  return name ? html`<${Pipeline} name=${name} />` : html`<${List} />`;
}

const columns = [
  { label: "Pipeline", cell: (row) => html`<a href="#/pipelines/${encodeURIComponent(row.name)}">${row.name}</a>` },
  { label: "State", cell: (row) => html`<${Badge} text=${row.state} tone=${TONES[row.state]} />` },
  { label: "Rows", isNumber: true, cell: (row) => short(row.rows) },
  { label: "Speed", isNumber: true, cell: (row) => rate(row.rows_per_second) },
  { label: "Lag", isNumber: true, cell: (row) => short(row.lag_records) },
  { label: "Time lag", isNumber: true, cell: (row) => seconds(row.lag_seconds) },
  { label: "Restarts", isNumber: true, cell: (row) => count(row.restarts) },
  { label: "Begun", cell: (row) => time(row.started_ms), isMono: true },
  { label: "Last error", cell: (row) => html`<span class="clip">${row.error ?? ""}</span>` },
];

class List extends Screen {
  load(signal) {
    return get("/pipelines?limit=500", signal);
  }

  render() {
    return html`<${Header} title="Pipelines" note="Spark's runs in this cluster" />${super.render()}`;
  }

  show({ pipelines }) {
    return html`<${Table} label="Pipelines" columns=${columns} rows=${pipelines} empty="No pipeline has run in this cluster." keyOf=${(row) => row.name} />`;
  }
}

class Pipeline extends Screen {
  load(signal) {
    return get(path`/pipelines/${this.props.name}`, signal);
  }

  render() {
    return html`<${Header} title=${this.props.name} back=${{ href: "#/pipelines", label: "← Pipelines" }} />${super.render()}`;
  }

  show({ run, history }) {
    return html`
      <${Facts} facts=${[
        { label: "Rows", value: short(run.rows) },
        { label: "Speed", value: rate(run.rows_per_second) },
        { label: "Restarts", value: count(run.restarts) },
        { label: "Host", value: run.host, note: run.master },
      ]} />
      ${run.error && html`<div class="refusal">${run.error}</div>`}
      <${Table} label="Runs" columns=${columns.slice(1)} rows=${history} empty="It has run once." keyOf=${(row) => row.run_id} />
    `;
  }
}
