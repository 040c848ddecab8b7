package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"qanat.test/clients/lines"
)

// begin of settings

// Settings of franz-go for each mechanism.
func secured(login lines.Login) ([]kgo.Opt, error) {
	tls, err := login.TLS()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.SeedBrokers(login.Address), kgo.DialTLSConfig(tls)}
	switch login.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: login.Name, Pass: login.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: login.Name, Pass: login.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: login.Name, Pass: login.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: login.Token}.AsMechanism()))
	}
	return options, nil
}

// end of settings

// Logs in, and says at once where that fails: work is tried again and again.
func loggedIn(login lines.Login, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := secured(login)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := soon()
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

func loginWrite(request lines.Request) (any, error) {
	client, err := loggedIn(request.Login, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestRetries(1))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(request.Values))
	for number, value := range request.Values {
		records[number] = &kgo.Record{Topic: request.Topic, Value: []byte(value)}
	}
	ctx, cancel := soon()
	defer cancel()
	return nil, client.ProduceSync(ctx, records...).FirstErr()
}

func loginRead(request lines.Request) (any, error) {
	client, err := loggedIn(
		request.Login,
		kgo.ConsumerGroup(request.Topic),
		kgo.ConsumeTopics(request.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(20*time.Millisecond),
		kgo.RequestRetries(1),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := soon()
	defer cancel()
	values := []string{}
	for len(values) < request.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}
