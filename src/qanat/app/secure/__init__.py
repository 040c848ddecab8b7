"""`qanat secure`: TLS, users and ACLs for a broker or a local cluster, in one command.

- `init`           the command
- `secure_setup`   everything that a protected broker needs: files, settings, the administrator
- `authority`      a certificate authority of one's own, and the certificates that it signs
- `private_files`  files that only their owner reads
"""
