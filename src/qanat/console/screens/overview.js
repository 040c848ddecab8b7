/** The cluster at a glance: what it carries, what is wrong, which brokers there are. */

import { get } from "../api.js";
import { Badge, Chart, Facts, Header, Panel, Screen, Table, html } from "../widgets.js";
import { byteRate, bytes, count, rate, short } from "../formats.js";

export default class Overview extends Screen {
  async load(signal) {
    const [cluster, health, traffic] = await Promise.all([
      get("/cluster", signal),
      get("/health", signal),
      get("/cluster/traffic", signal).catch((fault) => {
        if (fault.status === 403) return null;
        throw fault;
      }),
    ]);
    return { cluster, health, traffic };
  }

  show({ cluster, health, traffic }) {
    const isWell = health.status === "HEALTHY";
    return html`
      <${Header} title="Overview" note=${html`Cluster <code>${cluster.cluster_id}</code>`}>
        <a href="#/health"><${Badge} text=${health.status.toLowerCase()} tone=${isWell ? "good" : health.status === "DEGRADED" ? "warn" : "bad"} /></a>
      <//>
      <${Facts} facts=${facts(cluster, traffic)} />
      ${traffic ? html`<${Rates} traffic=${traffic} />` : html`<p class="note">Rates and sizes of the cluster are for those who may describe it.</p>`}
      <${Panel} title="Brokers"><${Table} label="Brokers" columns=${columns(traffic)} rows=${cluster.brokers} keyOf=${(one) => one.node_id} /><//>
    `;
  }
}

function facts(cluster, traffic) {
  const known = [
    { label: "Brokers", value: count(cluster.brokers.length) },
    { label: "Topics", value: count(cluster.topics), note: `${count(cluster.partitions)} partitions` },
  ];
  if (!traffic) return known;
  return [
    ...known,
    { label: "Written", value: rate(traffic.records_per_s), note: byteRate(traffic.bytes_per_s) },
    { label: "Stored", value: bytes(traffic.size_bytes), note: `${short(traffic.records)} records, one replica` },
    { label: "Without leader", value: count(traffic.without_leader), tone: traffic.without_leader ? "bad" : "" },
    { label: "Lacking replicas", value: count(traffic.under_replicated), tone: traffic.under_replicated ? "warn" : "" },
  ];
}

function Rates({ traffic }) {
  const points = traffic.last_hour;
  const times = points.map((one) => one.at_ms / 1000);
  return html`<div class="columns">
    <${Panel} title="Records written"><${Chart} label="Records written" times=${times} series=${[{ label: "records", values: points.map((one) => one.records_per_s), format: rate }]} /><//>
    <${Panel} title="Bytes written"><${Chart} label="Bytes written" times=${times} series=${[{ label: "bytes", values: points.map((one) => one.bytes_per_s), format: byteRate }]} /><//>
  </div>`;
}

function columns(traffic) {
  const loads = new Map((traffic?.brokers ?? []).map((one) => [one.node_id, one]));
  const of = (row) => loads.get(row.node_id) ?? {};
  const used = ({ total_bytes: total, usable_bytes: usable }) =>
    total ? html`<span class="meter"><span style=${{ width: `${Math.round(100 - (100 * usable) / total)}%` }}></span></span>${bytes(usable)} free` : "–";
  return [
    { label: "Broker", cell: (row) => row.node_id },
    { label: "Address", cell: (row) => `${row.host}:${row.port}`, isMono: true },
    { label: "Rack", cell: (row) => row.rack ?? "–" },
    { label: "Role", cell: (row) => (row.controller ? html`<${Badge} text="controller" />` : "") },
    { label: "Leads", cell: (row) => count(of(row).leaders), isNumber: true },
    { label: "Replicas", cell: (row) => count(of(row).replicas), isNumber: true },
    { label: "Stored", cell: (row) => bytes(of(row).size_bytes), isNumber: true },
    { label: "Disk", cell: (row) => used(of(row)) },
  ];
}
