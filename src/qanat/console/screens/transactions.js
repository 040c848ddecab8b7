/** Transactions: which are open, since when, and an end to one that hangs. */

import { get, path, post, query } from "../api.js";
import { Badge, Confirm, Dialog, Header, Screen, Search, Table, html, say } from "../widgets.js";
import { count, seconds, time } from "../formats.js";

const TONES = { Ongoing: "warn", CompleteCommit: "good", CompleteAbort: "", PrepareCommit: "warn", PrepareAbort: "warn" };

export default class Transactions extends Screen {
  state = { search: this.props.query.search ?? "", isOpen: this.props.query.open === "true" };

  load(signal) {
    const { search, isOpen } = this.state;
    return get(`/transactions${query({ search, state: isOpen ? "Ongoing" : "", limit: 500 })}`, signal);
  }

  change = (changes) => this.setState(changes, () => {
    history.replaceState(null, "", `#/transactions${query({ search: this.state.search, open: this.state.isOpen })}`);
    this.again();
  });

  render() {
    const { search, isOpen } = this.state;
    return html`
      <${Header} title="Transactions" note="Readers of committed records wait for the oldest open transaction of a partition" />
      <div class="bar">
        <${Search} label="Search transactional ids" value=${search} onInput=${(value) => this.change({ search: value })} />
        <label class="check"><input type="checkbox" checked=${isOpen} onChange=${(event) => this.change({ isOpen: event.target.checked })} /> Open ones</label>
      </div>
      ${super.render()}
    `;
  }

  show({ transactions, next_page_token: more }) {
    const { aborting, shown } = this.state;
    const close = () => this.setState({ aborting: null, shown: null });
    const columns = [
      { label: "Transactional id", cell: (row) => html`<button class="link" onClick=${async () => this.setState({ shown: await get(path`/transactions/${row.transactional_id}`) })}>${row.transactional_id}</button>` },
      { label: "State", cell: (row) => html`<${Badge} text=${row.state} tone=${TONES[row.state]} />` },
      { label: "Producer", isNumber: true, cell: (row) => row.producer_id },
      { label: "Open for", isNumber: true, cell: (row) => (row.started_at ? seconds((Date.now() - row.started_at) / 1000) : "–") },
      { label: "Aborted after", isNumber: true, cell: (row) => (row.timeout_ms ? seconds(row.timeout_ms / 1000) : "–") },
      { label: "", cell: (row) => (row.state === "Ongoing" ? html`<button class="small danger" onClick=${() => this.setState({ aborting: row })} aria-label="Abort ${row.transactional_id}">Abort</button>` : "") },
    ];
    return html`
      <${Table} label="Transactions" columns=${columns} rows=${transactions} empty="There is no transactional id." keyOf=${(row) => row.transactional_id} />
      ${more && html`<p class="quiet">The first ${count(transactions.length)} are shown: search for others.</p>`}
      ${shown && html`<${Dialog} title=${shown.transactional_id} onClose=${close}><dl class="pairs">
        <dt>State</dt><dd>${shown.state}</dd><dt>Producer</dt><dd>${shown.producer_id}, epoch ${shown.producer_epoch}</dd>
        <dt>Timeout</dt><dd>${seconds(shown.timeout_ms / 1000)}</dd><dt>Begun</dt><dd>${time(shown.started_at)}</dd>
        ${Object.entries(shown.partitions).map(([topic, numbers]) => html`<dt>Writes to</dt><dd>${topic}: ${numbers.join(", ")}</dd>`)}
      </dl><//>`}
      ${aborting && html`<${Confirm} title="Abort transaction" label="Abort" text="What ${aborting.transactional_id} has written since it began is thrown away, and its producer is fenced." onClose=${close}
        act=${async () => { await post(path`/transactions/${aborting.transactional_id}/abort`); say(`${aborting.transactional_id} was aborted.`); this.again(); }} />`}
    `;
  }
}
