#!/bin/sh
# Prints the hosts of an elastic job, one a line: `name` or `name:slots`.
#
#     hvdliterun -np 2 --min-np 1 --host-discovery-script examples/elastic_discover_hosts.sh \
#         python examples/torch_elastic_digits.py
#
# hvdliterun runs it once a second. Change the file that HOSTS_FILE names while the job trains:
# the job grows and shrinks with it. Replace the body by what asks your cluster.
cat "${HOSTS_FILE:-hosts.txt}" 2>/dev/null || echo localhost:2
