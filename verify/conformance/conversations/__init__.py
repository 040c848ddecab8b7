"""The scripts: a module for each family of APIs; `verify.conformance.script` loads all of them."""
