package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"qanat.test/clients/lines"
)

var (
	workers  = map[string]*kgo.Client{}
	statuses = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject}
)

func share(request lines.Request) (any, error) {
	client, err := connect(
		kgo.ShareGroup(request.Group),
		kgo.ConsumeTopics(request.Topic),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	workers[request.Member] = client
	return nil, err
}

// Takes what is there, and says of each record what is to become of it: value "accept", "release" or "reject".
func work(request lines.Request) (any, error) {
	client := workers[request.Member]
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	got := []string{}
	fetches.EachRecord(func(record *kgo.Record) {
		got = append(got, fmt.Sprintf("%s/%d", record.Value, record.DeliveryCount()))
	})
	client.MarkAcks(statuses[request.Value])
	flushing, stop := soon()
	defer stop()
	return got, client.FlushAcks(flushing)
}

func stopWorking(request lines.Request) (any, error) {
	workers[request.Member].Close()
	return nil, nil
}
