"""The generated pages of docs/reference: the command line, HTTP and the Python client.

    python -m tools.reference_pages            writes them
    python -m tools.reference_pages --check    exits with 1 where a page is out of date

- `command_line`  a page for each command, from the texts of `--help`
- `http_api`      every operation, from the OpenAPI document that a broker serves
- `client_api`    every public name of `qanat.client`, from its signature and docstring
"""
