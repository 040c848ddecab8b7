package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"qanat.test/clients/lines"
)

// begin of settings

// Settings of sarama for each mechanism.
func secured(login lines.Login) (*sarama.Config, error) {
	config := sarama.NewConfig()
	tls, err := login.TLS()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, tls
	if login.Mechanism == "mTLS" {
		return config, nil
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(login.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = login.Name, login.Password
	switch login.Mechanism {
	case "SCRAM-SHA-256":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &dialogue{hash: scram.SHA256} }
	case "SCRAM-SHA-512":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &dialogue{hash: scram.SHA512} }
	case "OAUTHBEARER":
		config.Net.SASL.TokenProvider = token(login.Token)
	}
	return config, nil
}

type token string

func (token token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(token)}, nil
}

// sarama leaves SCRAM to github.com/xdg-go/scram.
type dialogue struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (dialogue *dialogue) Begin(user, password, authorization string) error {
	client, err := dialogue.hash.NewClient(user, password, authorization)
	if err == nil {
		dialogue.ClientConversation = client.NewConversation()
	}
	return err
}

// end of settings

func loggedIn(login lines.Login) (*sarama.Config, error) {
	config, err := secured(login)
	if err != nil {
		return nil, err
	}
	config.Metadata.Retry.Max = 1
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Consumer.MaxWaitTime = 20 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config, nil
}

func loginWrite(request lines.Request) (any, error) {
	config, err := loggedIn(request.Login)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducer([]string{request.Login.Address}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for _, value := range request.Values {
		message := sarama.ProducerMessage{Topic: request.Topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(&message); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Takes values from its claims until it has enough.
type reader struct {
	count  int
	values []string
	done   context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// The topic has one partition, so this runs once at a time.
func (reader *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		reader.values = append(reader.values, string(message.Value))
		if len(reader.values) == reader.count {
			reader.done()
		}
	}
	return nil
}

func loginRead(request lines.Request) (any, error) {
	config, err := loggedIn(request.Login)
	if err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup([]string{request.Login.Address}, request.Topic, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	reader := &reader{count: request.Count, done: cancel}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{request.Topic}, reader); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return reader.values, nil
}
