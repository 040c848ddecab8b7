"""Authentication and authorization: principals, SASL mechanisms, the port for authorizers.

- `settings`       security settings of a broker; `tls_settings` those of TLS
- `authentication` the port for SASL mechanisms: a dialogue of tokens, step by step
- `sasl_exchange`  the SASL exchange of one connection
- `plain`          the mechanism PLAIN
- `scram`          the mechanisms SCRAM-SHA-256 and SCRAM-SHA-512
- `oauthbearer`    the mechanism OAUTHBEARER: a token of an identity provider
- `bearer_tokens`  the check of a token, with the provider's keys; `key_refresh` says when those are fetched
- `login_limits`   budgets of failed logins, per address and user
- `api_keys`       the text of API keys, and the hash that is stored of them
- `certificates`   subjects of certificates as Java writes them, and when they expire
- `principal_mapping`  from a subject to a principal's name, by rules
- `authorization`  the port for authorizers, with Kafka's operations and resources
- `acls`           rules, and the index that finds the one that decides; `acl_filters` finds rules
- `dry_run`        what rules would have denied, and the rules that are missing for it

Rule: everything here is pure. An adapter makes a mechanism that has to read a file.
"""
