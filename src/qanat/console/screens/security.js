/** Users that log in with SCRAM, and rules. */

import { get, path, post, put, query, remove } from "../api.js";
import { Badge, Confirm, Dialog, Doing, Facts, Field, Header, Panel, Refusal, Screen, Search, Table, html, say } from "../widgets.js";

const OPERATIONS = ["all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs", "cluster_action", "idempotent_write"];
const RESOURCES = ["topic", "group", "cluster", "transactional_id", "user"];

/** A listing, or why it is refused: what a user may not see is said in its place. */
const orProblem = (promise) => promise.catch((fault) => {
  if (fault.status >= 400 && fault.status < 500 && fault.status !== 401) return { problem: fault };
  throw fault;
});

export default class Security extends Screen {
  state = { search: "" };

  async load(signal) {
    const [who, users, rules] = await Promise.all([get("/whoami", signal), orProblem(get("/users?limit=1000", signal)), orProblem(get(`/acls${query({ limit: 1000, search: this.state.search })}`, signal))]);
    return { who, users, rules };
  }

  show({ who, users, rules }) {
    const { dialog } = this.state;
    const open = (one) => () => this.setState({ dialog: one });
    const done = (text) => { say(text); this.setState({ dialog: null }); this.again(); };
    const userColumns = [
      { label: "User", cell: (row) => row.user },
      { label: "Mechanisms", cell: (row) => row.mechanisms.join(", ") },
      { label: "", cell: (row) => html`<button class="small" onClick=${open({ kind: "password", user: row.user })} aria-label="Set the password of ${row.user}">Set password</button> <button class="small danger" onClick=${open({ kind: "remove", user: row.user })} aria-label="Remove ${row.user}">Remove</button>` },
    ];
    const ruleColumns = [
      { label: "Principal", cell: (row) => row.principal },
      { label: "", cell: (row) => html`<${Badge} text=${row.permission === "allow" ? "may" : "may not"} tone=${row.permission === "allow" ? "good" : "bad"} />` },
      { label: "Operation", cell: (row) => row.operation },
      { label: "Resource", cell: (row) => `${row.resource} ${row.name}${row.pattern === "prefixed" ? " …" : ""}` },
      { label: "From", cell: (row) => (row.host === "*" ? "anywhere" : row.host) },
      { label: "", cell: (row) => html`<button class="small danger" onClick=${open({ kind: "delete", rule: row })} aria-label="Delete this rule of ${row.principal}">Delete</button>` },
    ];
    return html`
      <${Header} title="Users and rules" />
      <${Facts} facts=${[
        { label: "You are", value: who.principal },
        { label: "Sign-in", value: who.requires_sign_in ? "required" : "not required", tone: who.requires_sign_in ? "good" : "warn" },
        { label: "Rules", value: who.authorizes ? "decide" : "do not decide", tone: who.authorizes ? "good" : "warn" },
      ]} />
      <${Panel} title="Users" actions=${html`<button data-new onClick=${open({ kind: "add" })}>New user</button>`}>
        ${users.problem ? html`<${Refusal} problem=${users.problem} />` : html`<${Table} label="Users" columns=${userColumns} rows=${users.users} empty="No user logs in with SCRAM." keyOf=${(row) => row.user} />`}
      <//>
      <${Panel} title="Rules" actions=${html`<${Search} label="Search rules" value=${this.state.search} onInput=${(value) => this.setState({ search: value }, this.again)} /><button onClick=${open({ kind: "rule" })}>New rule</button>`}>
        ${rules.problem ? html`<p class="note">${rules.problem.message}</p>` : html`<${Table} label="Rules" columns=${ruleColumns} rows=${rules.rules} empty="No rule: super users may do everything, others nothing." keyOf=${(row) => JSON.stringify(row)} />`}
      <//>
      ${dialog && html`<${Change} dialog=${dialog} onClose=${() => this.setState({ dialog: null })} done=${done} />`}
    `;
  }
}

function Change({ dialog, onClose, done }) {
  const { kind, user, rule } = dialog;
  if (kind === "remove") return html`<${Confirm} title="Remove user" label="Remove ${user}" text="The user can log in no more. Its rules stay." onClose=${onClose} act=${async () => { await remove(path`/users/${user}`); done(`${user} was removed.`); }} />`;
  if (kind === "delete") return html`<${Confirm} title="Delete rule" label="Delete" text="${rule.principal} ${rule.permission === "allow" ? "may" : "may not"} ${rule.operation} ${rule.resource} ${rule.name}: this rule ends at once, also for open connections." onClose=${onClose} act=${async () => { await remove("/acls", rule); done("The rule was deleted."); }} />`;
  if (kind === "rule") return html`<${NewRule} onClose=${onClose} done=${done} />`;
  const act = async (given) => {
    const name = user ?? given.user;
    await put(path`/users/${name}`, { password: given.password });
    done(`The password of ${name} was set.`);
  };
  return html`<${Dialog} title=${user ? `Password of ${user}` : "New user"} onClose=${onClose}>
    <${Doing} label="Set password" act=${act}>
      ${!user && html`<${Field} label="Name" hint="Rules call it User:name"><input name="user" required autofocus autocomplete="off" /><//>`}
      <${Field} label="Password" hint="Brokers keep a verifier, not the password"><input name="password" type="password" required autocomplete="new-password" /><//>
    <//>
  <//>`;
}

function NewRule({ onClose, done }) {
  const act = async (given) => {
    await post("/acls", given);
    done("The rule was created.");
  };
  const choice = (name, values) => html`<select name=${name}>${values.map((one) => html`<option>${one}</option>`)}</select>`;
  return html`<${Dialog} title="New rule" onClose=${onClose}>
    <${Doing} label="Create" act=${act}>
      <${Field} label="Principal" hint="User:* is everyone"><input name="principal" required defaultValue="User:" autofocus spellcheck=${false} /><//>
      <div class="fields">
        <${Field} label="Permission">${choice("permission", ["allow", "deny"])}<//>
        <${Field} label="Operation">${choice("operation", OPERATIONS)}<//>
        <${Field} label="Resource">${choice("resource", RESOURCES)}<//>
        <${Field} label="Pattern">${choice("pattern", ["literal", "prefixed"])}<//>
        <${Field} label="Name" hint="* is every one; the cluster is kafka-cluster"><input name="name" required spellcheck=${false} /><//>
        <${Field} label="Host" hint="* is anywhere"><input name="host" required defaultValue="*" /><//>
      </div>
    <//>
  <//>`;
}
