/** Health: whether this node serves, which partitions have problems, and what to do about them. */

import { get } from "../api.js";
import { Badge, Facts, Header, Panel, Screen, Table, html } from "../widgets.js";
import { count, seconds } from "../formats.js";

const DISK_LOW = 0.1;

export default class Health extends Screen {
  async load(signal) {
    const quietly = (promise) => promise.catch((fault) => (fault.status === 403 ? null : Promise.reject(fault)));
    const [health, restartable, traffic, groups, transactions] = await Promise.all([
      get("/health", signal),
      get("/health/restartable", signal).catch((fault) => (fault.status === 503 || fault.status === 403 ? null : Promise.reject(fault))),
      quietly(get("/cluster/traffic", signal)),
      quietly(get("/groups?lag=true&sort=time_lag_s&limit=20", signal)),
      quietly(get("/transactions?open_ms=60000&limit=20", signal)),
    ]);
    return { health, restartable, advice: adviceOf({ health, traffic, groups, transactions }) };
  }

  show({ health, restartable, advice }) {
    const tone = health.status === "HEALTHY" ? "good" : health.status === "DEGRADED" ? "warn" : "bad";
    const columns = [
      { label: "Topic", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.topic)}">${row.topic}</a>` },
      { label: "Partition", isNumber: true, cell: (row) => row.partition },
      { label: "Leader", cell: (row) => (row.leader < 0 ? "none" : `broker ${row.leader}`) },
      { label: "Problem", cell: (row) => row.problem },
    ];
    return html`
      <${Header} title="Health" note=${health.node_id === undefined ? "" : `As broker ${health.node_id} sees it`} />
      <${Facts} facts=${[
        { label: "Status", value: health.status.toLowerCase(), tone, note: health.reason },
        { label: "Brokers", value: count(health.brokers) },
        { label: "Partitions with problems", value: count(health.degraded_count), tone: health.degraded_count ? "warn" : "good" },
        { label: "May this node restart?", value: restartable ? "yes" : "not now", tone: restartable ? "good" : "warn", note: restartable ? "without stopping writes" : "writes would stop" },
      ]} />
      <${Panel} title="Advice">
        ${advice.length ? html`<${Table} label="Advice" columns=${[{ label: "", cell: (row) => html`<${Badge} text=${row.tone === "bad" ? "act" : "look"} tone=${row.tone} />` }, { label: "Finding", cell: (row) => (row.href ? html`<a href=${row.href}>${row.text}</a>` : row.text) }, { label: "What to do", cell: (row) => row.remedy }]} rows=${advice} />` : html`<p class="quiet">Nothing stands out.</p>`}
      <//>
      <${Panel} title="Partitions with problems"><${Table} label="Partitions with problems" columns=${columns} rows=${health.degraded ?? []} empty="Every partition has its leader and its replicas." keyOf=${(row) => `${row.topic}/${row.partition}`} /><//>
    `;
  }
}

/** Findings that a person would want to know first: [{tone, text, remedy, href}]. */
function adviceOf({ health, traffic, groups, transactions }) {
  const found = [];
  if (health.status === "UNHEALTHY") found.push({ tone: "bad", text: health.reason || "This node cannot serve", remedy: "Its log of events says why" });
  if (traffic?.without_leader) found.push({ tone: "bad", text: `${count(traffic.without_leader)} partitions have no leader`, remedy: "Start the brokers that hold their replicas" });
  if (traffic?.under_replicated) found.push({ tone: "warn", text: `${count(traffic.under_replicated)} partitions lack in-sync replicas`, remedy: "Look for a broker that is down or slow" });
  for (const one of traffic?.brokers ?? []) {
    if (one.total_bytes && one.usable_bytes / one.total_bytes < DISK_LOW) found.push({ tone: "bad", text: `Broker ${one.node_id} has ${Math.round((100 * one.usable_bytes) / one.total_bytes)} % of its disk left`, remedy: "Shorten retention, or add disk" });
  }
  const leads = (traffic?.brokers ?? []).map((one) => one.leaders);
  if (leads.length > 1 && Math.max(...leads) > 2 * Math.min(...leads) + 5) found.push({ tone: "warn", text: "Leaders are spread unevenly over the brokers", remedy: "qanat cluster rebalance" });
  for (const one of groups?.groups ?? []) {
    const href = `#/groups/${encodeURIComponent(one.group)}`;
    if (one.lag_state === "stalled") found.push({ tone: "bad", text: `Group ${one.group} commits and does not move`, remedy: "Look for a record that it cannot process", href });
    if (one.lag_state === "stopped") found.push({ tone: "bad", text: `Group ${one.group} has stopped committing, ${seconds(one.time_lag_s)} behind`, remedy: "Look at its members and their logs", href });
  }
  for (const one of transactions?.transactions ?? []) found.push({ tone: "warn", text: `Transaction ${one.transactional_id} is open for over a minute`, remedy: "Abort it if its producer is gone", href: "#/transactions?open=true" });
  return found;
}
