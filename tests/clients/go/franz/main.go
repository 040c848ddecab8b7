// twmb/franz-go behind one JSON object per line: franz ADDRESS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"qanat.test/clients/lines"
)

const timeout = 20 * time.Second

var (
	codecs = map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	levels      = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	members     = map[string]*member{}
	transactors = map[string]*kgo.Client{}
)

func connect(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(os.Args[1]))...)
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

func administer(work func(context.Context, *kadm.Client) (any, error)) (any, error) {
	client, err := connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := soon()
	defer cancel()
	return work(ctx, kadm.NewClient(client))
}

func create(request lines.Request) (any, error) {
	return administer(func(ctx context.Context, admin *kadm.Client) (any, error) {
		_, err := admin.CreateTopic(ctx, request.Partitions, 1, nil, request.Topic)
		return nil, err
	})
}

func describe(request lines.Request) (any, error) {
	return administer(func(ctx context.Context, admin *kadm.Client) (any, error) {
		found, err := admin.ListTopics(ctx, request.Topic)
		if err != nil {
			return nil, err
		}
		return len(found[request.Topic].Partitions), found[request.Topic].Err
	})
}

func remove(request lines.Request) (any, error) {
	return administer(func(ctx context.Context, admin *kadm.Client) (any, error) {
		_, err := admin.DeleteTopic(ctx, request.Topic)
		return nil, err
	})
}

func offsetAt(request lines.Request) (any, error) {
	return administer(func(ctx context.Context, admin *kadm.Client) (any, error) {
		found, err := admin.ListOffsetsAfterMilli(ctx, request.Timestamp, request.Topic)
		if err != nil {
			return nil, err
		}
		offset, _ := found.Lookup(request.Topic, 0)
		return offset.Offset, offset.Err
	})
}

func produce(request lines.Request) (any, error) {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(levels[request.Acks]),
		kgo.ProducerBatchCompression(codecs[request.Codec]),
		kgo.ProducerLinger(20 * time.Millisecond),
	}
	if request.Acks != "all" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := connect(options...)
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

func read(request lines.Request) (any, error) {
	from := map[string]map[int32]kgo.Offset{request.Topic: {0: kgo.NewOffset().At(request.Offset)}}
	options := []kgo.Opt{kgo.ConsumePartitions(from), kgo.FetchMaxWait(20 * time.Millisecond)}
	if request.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := connect(options...)
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
			return nil, fmt.Errorf("%d of %d values: %w", len(values), request.Count, err)
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}

// A member of a group, and the partitions that callbacks in the client's goroutines have reported.
type member struct {
	client *kgo.Client
	lock   sync.Mutex
	held   map[int32]bool
}

func (member *member) change(topic string, isHeld bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		member.lock.Lock()
		defer member.lock.Unlock()
		for _, number := range changed[topic] {
			if isHeld {
				member.held[number] = true
			} else {
				delete(member.held, number)
			}
		}
	}
}

func join(request lines.Request) (any, error) {
	joined := &member{held: map[int32]bool{}}
	options := []kgo.Opt{
		kgo.ConsumerGroup(request.Group),
		kgo.ConsumeTopics(request.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.FetchMaxWait(20 * time.Millisecond),
		kgo.OnPartitionsAssigned(joined.change(request.Topic, true)),
		kgo.OnPartitionsRevoked(joined.change(request.Topic, false)),
		kgo.OnPartitionsLost(joined.change(request.Topic, false)),
	}
	if request.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := connect(options...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	members[request.Member] = joined
	return nil, nil
}

func pump(request lines.Request) (any, error) {
	member := members[request.Member]
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fetches := member.client.PollFetches(ctx)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	got := lines.Progress{Assigned: []int32{}, Values: []string{}}
	fetches.EachRecord(func(record *kgo.Record) { got.Values = append(got.Values, string(record.Value)) })
	member.lock.Lock()
	defer member.lock.Unlock()
	for number := range member.held {
		got.Assigned = append(got.Assigned, number)
	}
	return got, nil
}

func commit(request lines.Request) (any, error) {
	ctx, cancel := soon()
	defer cancel()
	return nil, members[request.Member].client.CommitUncommittedOffsets(ctx)
}

func leave(request lines.Request) (any, error) {
	members[request.Member].client.Close()
	return nil, nil
}

func transactional(request lines.Request) []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(request.TransactionalID),
		kgo.TransactionTimeout(time.Duration(request.TimeoutMS) * time.Millisecond),
	}
}

func initialise(request lines.Request) (any, error) {
	client, err := connect(transactional(request)...)
	if err != nil {
		return nil, err
	}
	transactors[request.Member] = client
	ctx, cancel := soon()
	defer cancel()
	// It would ask for its epoch with the first record; the others ask when they start.
	_, _, err = client.ProducerID(ctx)
	return nil, err
}

func begin(request lines.Request) (any, error) {
	return nil, transactors[request.Member].BeginTransaction()
}

func send(request lines.Request) (any, error) {
	ctx, cancel := soon()
	defer cancel()
	record := kgo.Record{Topic: request.Topic, Value: []byte(request.Value)}
	return nil, transactors[request.Member].ProduceSync(ctx, &record).FirstErr()
}

// franz-go commits offsets in transactions only for its own sessions (see transform); this is what they send.
func sendOffset(request lines.Request) (any, error) {
	client := transactors[request.Member]
	ctx, cancel := soon()
	defer cancel()
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return nil, err
	}
	transaction := client.OptValue(kgo.TransactionalID).(string)
	added, err := (&kmsg.AddOffsetsToTxnRequest{TransactionalID: transaction, ProducerID: id, ProducerEpoch: epoch, Group: request.Group}).RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return nil, err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = transaction, id, epoch, request.Group
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = request.Topic
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = request.Offset
	topic.Partitions = append(topic.Partitions, partition)
	commit.Topics = append(commit.Topics, topic)
	committed, err := commit.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	return nil, kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
}

func end(commit kgo.TransactionEndTry) lines.Act {
	return func(request lines.Request) (any, error) {
		ctx, cancel := soon()
		defer cancel()
		return nil, transactors[request.Member].EndTransaction(ctx, commit)
	}
}

func closeTransactor(request lines.Request) (any, error) {
	transactors[request.Member].Close()
	return nil, nil
}

// Reads a topic as a group and writes every value in capitals to another, offsets and output in one transaction.
func transform(request lines.Request) (any, error) {
	options := append(
		transactional(request),
		kgo.ConsumerGroup(request.Group),
		kgo.ConsumeTopics(request.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SeedBrokers(os.Args[1]),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	ctx, cancel := soon()
	defer cancel()
	for done := 0; done < request.Count; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		records := []*kgo.Record{}
		fetches.EachRecord(func(record *kgo.Record) {
			records = append(records, &kgo.Record{Topic: request.Sink, Value: []byte(strings.ToUpper(string(record.Value)))})
		})
		if err := session.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return nil, err
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return nil, err
		}
		if committed {
			done += len(records)
		}
	}
	return nil, nil
}

func main() {
	lines.Serve(map[string]lines.Act{
		"create": create, "describe": describe, "delete": remove, "produce": produce, "read": read, "offset_at": offsetAt,
		"join": join, "pump": pump, "commit": commit, "leave": leave,
		"init": initialise, "begin": begin, "send": send, "send_offset": sendOffset,
		"commit_transaction": end(kgo.TryCommit), "abort_transaction": end(kgo.TryAbort), "close_transactor": closeTransactor,
		"transform": transform, "share": share, "work": work, "stop_working": stopWorking,
		"login_write": loginWrite, "login_read": loginRead,
	})
}
