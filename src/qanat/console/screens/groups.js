/** Consumer groups: lag in records and seconds, over time; members; reset with a preview. */

import { get, path, post, query, remove } from "../api.js";
import { Badge, Chart, Component, Confirm, Dialog, Doing, Facts, Field, Header, LongTable, Panel, Screen, Search, Table, html, say } from "../widgets.js";
import { count, seconds, short, time } from "../formats.js";

const TONES = { ok: "good", warn: "warn", rewound: "warn", stalled: "bad", stopped: "bad" };
const STATE_TONES = { Stable: "good", Empty: "", Dead: "bad" };

export const LagState = ({ state }) => (state ? html`<${Badge} text=${state} tone=${TONES[state]} />` : "–");

const COLUMNS = [
  { label: "Group", sort: "name", cell: (row) => html`<a href="#/${row.type.toLowerCase() === "share" ? "queues" : "groups"}/${encodeURIComponent(row.group)}">${row.group}</a>` },
  { label: "State", cell: (row) => html`<${Badge} text=${row.state} tone=${STATE_TONES[row.state]} />` },
  { label: "Type", cell: (row) => row.type },
  { label: "Lag", sort: "lag", isNumber: true, cell: (row) => short(row.lag) },
  { label: "Time lag", sort: "time_lag_s", isNumber: true, cell: (row) => seconds(row.time_lag_s) },
  { label: "Progress", cell: (row) => html`<${LagState} state=${row.lag_state} />` },
];

/** All groups, or those of one type. */
export class GroupList extends Component {
  state = { search: this.props.query.search ?? "", sort: this.props.query.sort ?? "name", isReverse: this.props.query.reverse === "true", total: null };

  change = (changes) => {
    this.setState(changes, () => {
      const { search, sort, isReverse } = this.state;
      history.replaceState(null, "", `#/${this.props.part}${query({ search, sort: sort === "name" ? "" : sort, reverse: isReverse })}`);
    });
  };

  onSort = (sort) => this.change({ sort, isReverse: sort === this.state.sort ? !this.state.isReverse : false });

  fetchPage = async (offset, limit, signal) => {
    const { search, sort, isReverse } = this.state;
    const found = await get(`/groups${query({ lag: true, type: this.props.type, search, sort, reverse: isReverse, offset, limit })}`, signal);
    return { rows: found.groups, total: found.total };
  };

  render({ title, empty }, { search, sort, isReverse, total }) {
    return html`
      <${Header} title=${title} note=${total === null ? "" : `${count(total)} ${search ? "found" : "in all"}`} />
      <div class="bar"><${Search} label="Search ${title.toLowerCase()}" value=${search} onInput=${(value) => this.change({ search: value })} /></div>
      <${LongTable} label=${title} columns=${COLUMNS} keyOf=${(row) => row.group} viewKey=${[search, sort, isReverse].join("|")} sort=${sort} isReverse=${isReverse}
        onSort=${this.onSort} fetchPage=${this.fetchPage} onTotal=${(value) => value !== this.state.total && this.setState({ total: value })} empty=${empty} />
    `;
  }
}

export default function Groups({ name, query: given }) {
  return name ? html`<${Group} name=${name} />` : html`<${GroupList} part="groups" title="Consumer groups" query=${given} empty="No group has read anything yet." />`;
}

class Group extends Screen {
  async load(signal) {
    const { name } = this.props;
    const [group, lag] = await Promise.all([
      get(path`/groups/${name}`, signal),
      get(path`/groups/${name}/lag`, signal).catch((fault) => {
        if (fault.status === 404) return null;
        throw fault;
      }),
    ]);
    return { group, lag };
  }

  show({ group, lag }) {
    const { isResetting, isDeleting } = this.state;
    const close = () => this.setState({ isResetting: false, isDeleting: false });
    const details = new Map((lag?.partitions ?? []).map((one) => [`${one.topic}/${one.partition}`, one]));
    const points = lag?.history ?? [];
    return html`
      <${Header} title=${group.group} back=${{ href: "#/groups", label: "← Consumer groups" }} note=${html`<${Badge} text=${group.state} tone=${STATE_TONES[group.state]} /> ${group.type}`}>
        <button onClick=${() => this.setState({ isResetting: true })} data-new>Reset offsets</button>
        <button class="danger" onClick=${() => this.setState({ isDeleting: true })}>Delete group</button>
      <//>
      <${Facts} facts=${[
        { label: "Lag", value: count(lag?.lag ?? group.total_lag), note: "records" },
        { label: "Time lag", value: seconds(lag?.time_lag_s), note: "the oldest unread record" },
        { label: "Members", value: count(group.members.length) },
        { label: "Progress", value: html`<${LagState} state=${lag?.state} />` },
      ]} />
      ${points.length > 1 && html`<div class="columns">
        <${Panel} title="Lag in records"><${Chart} label="Lag in records" times=${points.map((one) => one.at_ms / 1000)} series=${[{ label: "lag", values: points.map((one) => one.lag), format: short }]} /><//>
        <${Panel} title="Lag in seconds"><${Chart} label="Lag in seconds" times=${points.map((one) => one.at_ms / 1000)} series=${[{ label: "lag", values: points.map((one) => one.time_lag_s), format: seconds }]} /><//>
      </div>`}
      <${Panel} title="Partitions"><${Table} label="Partitions" columns=${partitionColumns(details)} rows=${group.partitions} empty="The group has committed nothing and owns nothing." keyOf=${(row) => `${row.topic}/${row.partition}`} /><//>
      <${Panel} title="Members"><${Members} members=${group.members} /><//>
      ${isResetting && html`<${Reset} group=${group} onClose=${close} onDone=${this.again} />`}
      ${isDeleting && html`<${Confirm} title="Delete group" label="Delete ${group.group}" text="The group's committed offsets are lost. A group with members cannot be deleted." onClose=${close}
        act=${async () => { await remove(path`/groups/${group.group}`); say(`Group ${group.group} was deleted.`); location.hash = "#/groups"; }} />`}
    `;
  }
}

function partitionColumns(details) {
  const of = (row) => details.get(`${row.topic}/${row.partition}`);
  return [
    { label: "Topic", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.topic)}">${row.topic}</a>` },
    { label: "Partition", isNumber: true, cell: (row) => row.partition },
    { label: "Committed", isNumber: true, cell: (row) => count(row.committed_offset) },
    { label: "End", isNumber: true, cell: (row) => count(row.latest_offset) },
    { label: "Lag", isNumber: true, cell: (row) => count(row.lag) },
    { label: "Time lag", isNumber: true, cell: (row) => seconds(of(row)?.time_lag_s) },
    { label: "Progress", cell: (row) => html`<${LagState} state=${of(row)?.state} />` },
    { label: "Member", cell: (row) => html`<span class="clip">${row.member_id ?? "–"}</span>`, isMono: true },
  ];
}

export function Members({ members }) {
  const owned = (row) => Object.entries(row.assignment ?? {}).map(([topic, numbers]) => `${topic}: ${numbers.join(", ")}`).join("; ");
  const columns = [
    { label: "Member", cell: (row) => html`<span class="clip">${row.member_id}</span>`, isMono: true },
    { label: "Client", cell: (row) => row.client_id ?? "–" },
    { label: "Host", cell: (row) => row.host ?? row.client_host ?? "–", isMono: true },
    { label: "Partitions", cell: (row) => html`<span class="clip">${owned(row) || "–"}</span>` },
  ];
  return html`<${Table} label="Members" columns=${columns} rows=${members} empty="No member is connected." keyOf=${(row) => row.member_id} />`;
}

/** Chooses new offsets, shows them, and then commits them. */
class Reset extends Component {
  state = { to: "earliest", plan: null };

  body(given) {
    const body = given.topic ? { topic: given.topic } : {};
    if (given.to === "offset") body.offset = Number(given.offset);
    else if (given.to === "shift") body.shift_by = Number(given.shift);
    else body.to = given.to === "time" ? String(new Date(given.time).getTime()) : given.to;
    return body;
  }

  preview = async (given) => {
    this.wanted = this.body(given);
    this.setState({ plan: await post(path`/groups/${this.props.group.group}/offsets/reset`, { ...this.wanted, dry_run: true }) });
  };

  commit = async () => {
    await post(path`/groups/${this.props.group.group}/offsets/reset`, this.wanted);
    say(`The offsets of ${this.props.group.group} were reset.`);
    this.props.onClose();
    this.props.onDone();
  };

  render({ group, onClose }, { to, plan }) {
    const topics = [...new Set(group.partitions.map((one) => one.topic))];
    if (plan) {
      const columns = [
        { label: "Topic", cell: (row) => row.topic },
        { label: "Partition", isNumber: true, cell: (row) => row.partition },
        { label: "Now", isNumber: true, cell: (row) => count(row.committed_offset) },
        { label: "Then", isNumber: true, cell: (row) => count(row.new_offset) },
        { label: "Records", isNumber: true, cell: (row) => (row.committed_offset === null ? "–" : row.new_offset < row.committed_offset ? `${count(row.committed_offset - row.new_offset)} again` : `${count(row.new_offset - row.committed_offset)} skipped`) },
      ];
      return html`<${Dialog} title="Reset offsets of ${group.group}" isWide onClose=${onClose}>
        <${Table} label="New offsets" columns=${columns} rows=${plan.offsets} />
        <${Doing} label="Reset offsets" act=${this.commit} extra=${html`<button type="button" onClick=${() => this.setState({ plan: null })}>Back</button>`} />
      <//>`;
    }
    return html`<${Dialog} title="Reset offsets of ${group.group}" onClose=${onClose}>
      ${group.members.length > 0 && html`<p class="note">The group has members: stop them first, or the broker refuses.</p>`}
      <${Doing} label="Preview" act=${this.preview}>
        <${Field} label="Topic"><select name="topic"><option value="">All topics with offsets</option>${topics.map((one) => html`<option value=${one}>${one}</option>`)}</select><//>
        <${Field} label="To"><select name="to" value=${to} autofocus onChange=${(event) => this.setState({ to: event.target.value })}>
          <option value="earliest">The beginning</option><option value="latest">The end</option><option value="time">A time</option><option value="offset">An offset</option><option value="shift">So many records on, or back</option>
        </select><//>
        ${to === "time" && html`<${Field} label="Time"><input name="time" type="datetime-local" step="1" required defaultValue=${time(Date.now() - 3600_000).replace(" ", "T").slice(0, 19)} /><//>`}
        ${to === "offset" && html`<${Field} label="Offset"><input name="offset" type="number" min="0" required /><//>`}
        ${to === "shift" && html`<${Field} label="Records" hint="Negative goes back"><input name="shift" type="number" required /><//>`}
      <//>
    <//>`;
  }
}
