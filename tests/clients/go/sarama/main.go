// IBM/sarama behind one JSON object per line: sarama ADDRESS. It speaks what it speaks by default, the level of Kafka 2.8.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"qanat.test/clients/lines"
)

const timeout = 20 * time.Second

var (
	address = os.Args[1]
	codecs  = map[string]sarama.CompressionCodec{
		"none":   sarama.CompressionNone,
		"gzip":   sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy,
		"lz4":    sarama.CompressionLZ4,
		"zstd":   sarama.CompressionZSTD,
	}
	levels      = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}
	members     = map[string]*member{}
	transactors = map[string]sarama.SyncProducer{}
)

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Consumer.MaxWaitTime = 20 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 50 * time.Millisecond
	config.Consumer.Return.Errors = true
	return config
}

func administer(work func(sarama.ClusterAdmin) (any, error)) (any, error) {
	admin, err := sarama.NewClusterAdmin([]string{address}, config())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return work(admin)
}

func create(request lines.Request) (any, error) {
	return administer(func(admin sarama.ClusterAdmin) (any, error) {
		detail := sarama.TopicDetail{NumPartitions: request.Partitions, ReplicationFactor: 1}
		return nil, admin.CreateTopic(request.Topic, &detail, false)
	})
}

func describe(request lines.Request) (any, error) {
	return administer(func(admin sarama.ClusterAdmin) (any, error) {
		found, err := admin.DescribeTopics([]string{request.Topic})
		if err != nil {
			return nil, err
		}
		if found[0].Err != sarama.ErrNoError {
			return nil, found[0].Err
		}
		return len(found[0].Partitions), nil
	})
}

func remove(request lines.Request) (any, error) {
	return administer(func(admin sarama.ClusterAdmin) (any, error) { return nil, admin.DeleteTopic(request.Topic) })
}

func produce(request lines.Request) (any, error) {
	config := config()
	config.Producer.Compression = codecs[request.Codec]
	config.Producer.RequiredAcks = levels[request.Acks]
	config.Producer.Flush.Messages = len(request.Values)
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	producer, err := sarama.NewSyncProducer([]string{address}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(request.Values))
	for number, value := range request.Values {
		messages[number] = &sarama.ProducerMessage{Topic: request.Topic, Value: sarama.StringEncoder(value)}
	}
	return nil, producer.SendMessages(messages)
}

func read(request lines.Request) (any, error) {
	config := config()
	if request.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{address}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(request.Topic, 0, request.Offset)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	values := []string{}
	deadline := time.After(timeout)
	for len(values) < request.Count {
		select {
		case message := <-partition.Messages():
			values = append(values, string(message.Value))
		case fault := <-partition.Errors():
			return nil, fault
		case <-deadline:
			return nil, fmt.Errorf("%d of %d values within %s", len(values), request.Count, timeout)
		}
	}
	return values, nil
}

func offsetAt(request lines.Request) (any, error) {
	client, err := sarama.NewClient([]string{address}, config())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.GetOffset(request.Topic, 0, request.Timestamp)
}

// A member of a group; sarama calls it back from goroutines of its own.
type member struct {
	group   sarama.ConsumerGroup
	leave   context.CancelFunc
	over    sync.WaitGroup
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	got     lines.Progress
}

func (member *member) Setup(session sarama.ConsumerGroupSession) error {
	member.lock.Lock()
	defer member.lock.Unlock()
	member.session = session
	member.got.Assigned = []int32{}
	for _, numbers := range session.Claims() {
		member.got.Assigned = append(member.got.Assigned, numbers...)
	}
	return nil
}

func (member *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (member *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		member.lock.Lock()
		member.got.Values = append(member.got.Values, string(message.Value))
		session.MarkMessage(message, "")
		member.lock.Unlock()
	}
	return nil
}

func join(request lines.Request) (any, error) {
	group, err := sarama.NewConsumerGroup([]string{address}, request.Group, config())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := &member{group: group, leave: cancel}
	joined.over.Add(1)
	go func() {
		for fault := range group.Errors() {
			fmt.Fprintln(os.Stderr, fault)
		}
	}()
	go func() {
		defer joined.over.Done()
		// Each return is a rebalance; the next call joins again.
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{request.Topic}, joined); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	members[request.Member] = joined
	return nil, nil
}

func pump(request lines.Request) (any, error) {
	time.Sleep(20 * time.Millisecond)
	member := members[request.Member]
	member.lock.Lock()
	defer member.lock.Unlock()
	got := lines.Progress{Assigned: append([]int32{}, member.got.Assigned...), Values: append([]string{}, member.got.Values...)}
	member.got.Values = nil
	return got, nil
}

func commit(request lines.Request) (any, error) {
	member := members[request.Member]
	member.lock.Lock()
	defer member.lock.Unlock()
	member.session.Commit()
	return nil, nil
}

func leave(request lines.Request) (any, error) {
	member := members[request.Member]
	member.leave()
	member.over.Wait()
	return nil, member.group.Close()
}

func initialise(request lines.Request) (any, error) {
	config := config()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	config.Producer.Transaction.ID = request.TransactionalID
	config.Producer.Transaction.Timeout = time.Duration(request.TimeoutMS) * time.Millisecond
	producer, err := sarama.NewSyncProducer([]string{address}, config)
	transactors[request.Member] = producer
	return nil, err
}

func begin(request lines.Request) (any, error) { return nil, transactors[request.Member].BeginTxn() }

func send(request lines.Request) (any, error) {
	message := sarama.ProducerMessage{Topic: request.Topic, Value: sarama.StringEncoder(request.Value)}
	_, _, err := transactors[request.Member].SendMessage(&message)
	return nil, err
}

func sendOffset(request lines.Request) (any, error) {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{request.Topic: {{Partition: 0, Offset: request.Offset, LeaderEpoch: -1}}}
	return nil, transactors[request.Member].AddOffsetsToTxn(offsets, request.Group)
}

func commitTransaction(request lines.Request) (any, error) {
	return nil, transactors[request.Member].CommitTxn()
}

func abortTransaction(request lines.Request) (any, error) {
	return nil, transactors[request.Member].AbortTxn()
}

func closeTransactor(request lines.Request) (any, error) {
	// What a producer that was fenced says at its end is no news.
	_ = transactors[request.Member].Close()
	return nil, nil
}

func main() {
	lines.Serve(map[string]lines.Act{
		"create": create, "describe": describe, "delete": remove, "produce": produce, "read": read, "offset_at": offsetAt,
		"join": join, "pump": pump, "commit": commit, "leave": leave,
		"init": initialise, "begin": begin, "send": send, "send_offset": sendOffset,
		"commit_transaction": commitTransaction, "abort_transaction": abortTransaction, "close_transactor": closeTransactor,
		"login_write": loginWrite, "login_read": loginRead,
	})
}
