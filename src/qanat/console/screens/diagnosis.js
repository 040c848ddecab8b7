/** Why is this slow? Where the time of requests goes, what limits the cluster, and what to do about it. */

import { get, query } from "../api.js";
import { Badge, Facts, Header, Panel, Screen, Table, html } from "../widgets.js";
import { count } from "../formats.js";

/** Causes by their names in the API, in the order in which a request meets them. */
const CAUSES = [
  ["throttle", "Held back", "not read, because unanswered requests hold too much memory"],
  ["queue", "Queue", "ready, while the event loop did something else"],
  ["loop", "Event loop", "worked on by the broker"],
  ["cold_read", "Cold reads", "until records were read from disk"],
  ["disk", "Disk", "until this broker had flushed"],
  ["replication", "Replication", "until in-sync followers had the records"],
  ["store", "Metadata store", "until a change was committed"],
  ["other", "Other", "coordinators, locks, workers"],
];

export default class Diagnosis extends Screen {
  load(signal) {
    return get(`/diagnosis${query({ seconds: 30 })}`, signal);
  }

  show(found) {
    const limits = found.findings[0];
    return html`
      <${Header} title="Why is this slow?" note=${found.seconds ? `The last ${Math.round(found.seconds)} seconds` : "The first seconds are being watched"} />
      <${Facts} facts=${[
        { label: "What limits", value: limits ? limits.subject : "nothing", note: limits ? limits.cause.replaceAll("_", " ") : "", tone: limits ? "warn" : "good" },
        { label: "Requests a second", value: count(Math.round(found.requests_per_s)) },
        { label: "Brokers seen", value: count(found.brokers.length), note: found.silent.length ? `not seen: ${found.silent.join(", ")}` : "", tone: found.silent.length ? "warn" : "" },
      ]} />
      ${found.findings.map((one) => html`<${Finding} key=${`${one.cause} ${one.subject}`} finding=${one} />`)}
      ${found.findings.length || !found.seconds ? null : html`<p class="note">Nothing limits this cluster.</p>`}
      <${Panel} title="Where the time of requests goes"><${Table} label="Time of requests by cause" columns=${columns(found)} rows=${CAUSES} keyOf=${(row) => row[0]} /><//>
      <${Panel} title="Brokers"><${Table} label="Brokers" columns=${BROKERS} rows=${found.brokers} keyOf=${(row) => row.node_id} /><//>
    `;
  }
}

function Finding({ finding }) {
  const href = finding.topic ? `#/topics/${encodeURIComponent(finding.topic)}` : finding.group ? `#/groups/${encodeURIComponent(finding.group)}` : null;
  return html`<${Panel} title=${finding.summary} actions=${html`<${Badge} text=${finding.cause.replaceAll("_", " ")} tone="warn" />`}>
    <ul>${finding.evidence.map((one) => html`<li>${one}</li>`)}</ul>
    <p><strong>What to do:</strong> ${finding.remedy}.${href ? html` <a href=${href}>Show ${finding.subject}</a>` : null}</p>
  <//>`;
}

/** The share of a cause in all but what clients ask for. */
function share(split, cause) {
  const busy = CAUSES.reduce((sum, [name]) => sum + split[name], 0);
  return busy ? split[cause] / busy : 0;
}

function columns(found) {
  const cell = (split) => ([cause]) => {
    const part = Math.round(100 * share(split, cause));
    return html`<span class="meter"><span style=${{ width: `${part}%` }}></span></span>${part} %`;
  };
  return [
    { label: "Cause", cell: ([, label]) => label },
    { label: "All brokers", cell: cell(found.split) },
    ...(found.brokers.length > 1 ? found.brokers.map((one) => ({ label: `Broker ${one.node_id}`, cell: cell(one.split) })) : []),
    { label: "Meaning", cell: ([, , meaning]) => meaning },
  ];
}

const BROKERS = [
  { label: "Broker", cell: (row) => row.node_id },
  { label: "Requests a second", isNumber: true, cell: (row) => count(Math.round(row.requests_per_s)) },
  { label: "Event loop", isNumber: true, cell: (row) => `${Math.round(100 * row.loop_share)} % of a core` },
  { label: "Events late by", isNumber: true, cell: (row) => `${row.late_ms.toFixed(1)} ms` },
];
