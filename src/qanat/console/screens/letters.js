/** Dead letters of a topic: where each comes from and why, and back again, with a dry run. */

import { get, path, post, query } from "../api.js";
import { Badge, Dialog, Doing, Facts, Field, Screen, Table, html, say } from "../widgets.js";
import { count, time } from "../formats.js";

export default class Letters extends Screen {
  state = { origin: "", error: "", where: "", pending: true, isRedriving: false };

  load(signal) {
    const { origin, error, where, pending } = this.state;
    return get(path`/topics/${this.props.name}/dead-letters` + query({ origin, error, where, pending, count: 200, encoding: "text" }), signal);
  }

  change = (changes) => {
    this.setState(changes);
    clearTimeout(this.typing);
    this.typing = setTimeout(this.again, 300);
  };

  render() {
    const { origin, error, where, pending, isRedriving } = this.state;
    return html`
      <div class="bar">
        <input type="search" data-search aria-label="Origin" placeholder="From topic" value=${origin} onInput=${(event) => this.change({ origin: event.target.value })} />
        <input type="search" aria-label="Reason" placeholder="Reason has this text" value=${error} onInput=${(event) => this.change({ error: event.target.value })} />
        <input class="where" aria-label="Condition" placeholder="json.amount > 100" value=${where} onInput=${(event) => this.change({ where: event.target.value })} spellcheck=${false} />
        <label class="check"><input type="checkbox" checked=${pending} onChange=${(event) => this.change({ pending: event.target.checked })} /> Not redriven yet</label>
        <button class="main" data-new onClick=${() => this.setState({ isRedriving: true })}>Redrive …</button>
      </div>
      ${super.render()}
      ${isRedriving && html`<${Redrive} name=${this.props.name} selection=${{ origin, error, where }} onClose=${() => this.setState({ isRedriving: false })} onDone=${this.again} />`}
    `;
  }

  show({ letters }) {
    const columns = [
      { label: "From", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.topic)}/records?partition=${row.partition}&from=offset:${row.offset}">${row.topic}</a> ${row.partition}/${row.offset}` },
      { label: "Reason", cell: (row) => html`<span class="clip">${row.error}</span>` },
      { label: "Group", cell: (row) => row.group ?? "–" },
      { label: "Delivered", isNumber: true, cell: (row) => count(row.delivery_count) },
      { label: "At", cell: (row) => time(row.letter.timestamp), isMono: true },
      { label: "Key", cell: (row) => html`<span class="clip">${row.letter.key ?? "none"}</span>`, isMono: true },
      { label: "Value", cell: (row) => html`<span class="clip">${String(row.letter.value ?? "null").slice(0, 200)}</span>`, isMono: true },
      { label: "", cell: (row) => (row.is_redriven ? html`<${Badge} text="redriven" tone="good" />` : "") },
    ];
    return html`<${Table} label="Dead letters" columns=${columns} rows=${letters} empty="No letter fits: nothing was given up." keyOf=${(row) => `${row.letter.partition}/${row.letter.offset}`} />`;
  }
}

/** First says what would be done, then does it, ten thousand letters at a time. */
class Redrive extends Screen {
  every = 0;

  load(signal) {
    return post(path`/topics/${this.props.name}/dead-letters/redrive`, { ...this.body(), dry_run: true }, signal);
  }

  body() {
    return Object.fromEntries(Object.entries(this.props.selection).filter(([, value]) => value));
  }

  act = async ({ byKey }) => {
    let redriven = 0;
    for (let isDone = false; !isDone; ) {
      const found = await post(path`/topics/${this.props.name}/dead-letters/redrive`, { ...this.body(), by_key: Boolean(byKey) });
      redriven += found.redriven;
      isDone = found.is_complete;
    }
    say(`${count(redriven)} letters were redriven.`);
    this.props.onClose();
    this.props.onDone();
  };

  render() {
    return html`<${Dialog} title="Redrive dead letters" onClose=${this.props.onClose}>${super.render()}<//>`;
  }

  show(plan) {
    const to = Object.entries(plan.to);
    return html`
      <p>This is what would be done. Each letter is written back to its topic and marked in one transaction: it goes back once, whatever happens.</p>
      <${Facts} facts=${[
        { label: "Would go back", value: count(plan.redriven) },
        { label: "Went back before", value: count(plan.done_before) },
        { label: "Without an origin", value: count(plan.without_origin) },
      ]} />
      ${plan.topic_gone > 0 && html`<p>${count(plan.topic_gone)} come from topics that are gone.</p>`}
      ${to.length > 0 && html`<${Table} label="Where letters go" columns=${[{ label: "Topic", cell: ([topic]) => topic }, { label: "Letters", isNumber: true, cell: ([, letters]) => count(letters) }]} rows=${to} />`}
      <${Doing} label="Redrive ${count(plan.redriven)}" act=${this.act}>
        <${Field} label=""><span class="check"><input type="checkbox" name="byKey" /> Let the key choose the partition</span><//>
      <//>
    `;
  }
}
