#!/bin/sh
# Health, a topic with ten partitions, a record: examples/http_quick_start.sh [http://localhost:8080]
set -e
node=${1:-http://localhost:8080}
replicas=${REPLICATION_FACTOR:-3}

curl --fail-with-body --silent "$node/health"
echo
curl --fail-with-body --silent -X POST "$node/api/v1/topics" \
  -H "Content-Type: application/json" \
  -d "{
    \"name\": \"test-topic\",
    \"partitions\": 10,
    \"replication_factor\": $replicas
  }"
echo
curl --fail-with-body --silent -X POST "$node/produce" -H "Content-Type: application/json" \
  -d '{"topic": "test-topic", "key": "key1", "value": "Hello World!"}'
echo
