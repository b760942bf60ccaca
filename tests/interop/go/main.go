// Drives the unmodified RocketMQ Go client from the command line; each event is one line of JSON on standard output.
// The first argument names the deed (produce, consume); flags follow. consume goes on until standard input ends.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type options struct {
	accessKey, secretKey                                        string
	namesrv, group, topic, mode, tags, prefix, keys, failPrefix string
	count, maxReconsume                                         int
}

var output sync.Mutex

func emit(event string, fields map[string]string) {
	line := map[string]string{"event": event}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

func main() {
	rlog.SetLogLevel("error")
	flags := flag.NewFlagSet("driver", flag.ExitOnError)
	var o options
	flags.StringVar(&o.namesrv, "namesrv", "", "address of the name server")
	flags.StringVar(&o.accessKey, "access-key", "", "account to sign as")
	flags.StringVar(&o.secretKey, "secret-key", "", "its secret")
	flags.StringVar(&o.group, "group", "", "producer or consumer group")
	flags.StringVar(&o.topic, "topic", "", "topic")
	flags.StringVar(&o.mode, "mode", "sync", "sync, async, oneway or batch")
	flags.StringVar(&o.tags, "tags", "", "tags to give in turn, or the expression to subscribe to")
	flags.StringVar(&o.prefix, "prefix", "", "bodies are <prefix>-<index>")
	flags.StringVar(&o.keys, "keys", "", "keys are <keys>-<index>")
	flags.StringVar(&o.failPrefix, "fail-prefix", "", "bodies that the listener refuses")
	flags.IntVar(&o.count, "count", 1, "how many messages")
	flags.IntVar(&o.maxReconsume, "max-reconsume", 16, "retries before the dead-letter queue")
	if err := flags.Parse(os.Args[2:]); err != nil {
		panic(err)
	}
	deeds := map[string]func(options) error{"produce": produce, "consume": consume}
	if err := deeds[os.Args[1]](o); err != nil {
		emit("error", map[string]string{"message": err.Error()})
		os.Exit(1)
	}
}

func message(o options, index int) *primitive.Message {
	m := primitive.NewMessage(o.topic, []byte(fmt.Sprintf("%s-%d", o.prefix, index)))
	if o.tags != "" {
		tags := strings.Split(o.tags, ",")
		m.WithTag(tags[index%len(tags)])
	}
	if o.keys != "" {
		m.WithKeys([]string{fmt.Sprintf("%s-%d", o.keys, index)})
	}
	m.WithProperty("index", strconv.Itoa(index))
	return m
}

func emitSent(result *primitive.SendResult) {
	status := "SEND_OK"
	if result.Status != primitive.SendOK {
		status = strconv.Itoa(int(result.Status))
	}
	emit("sent", map[string]string{"status": status, "msgId": result.MsgID, "offsetMsgId": result.OffsetMsgID,
		"queueId":     strconv.Itoa(result.MessageQueue.QueueId),
		"queueOffset": strconv.FormatInt(result.QueueOffset, 10)})
}

func produce(o options) error {
	chosen := []producer.Option{
		producer.WithGroupName(o.group),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.namesrv})),
		producer.WithSendMsgTimeout(10 * time.Second),
	}
	if o.accessKey != "" {
		chosen = append(chosen, producer.WithCredentials(primitive.Credentials{
			AccessKey: o.accessKey, SecretKey: o.secretKey}))
	}
	p, err := rocketmq.NewProducer(chosen...)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	ctx := context.Background()
	switch o.mode {
	case "sync":
		for i := 0; i < o.count; i++ {
			result, err := p.SendSync(ctx, message(o, i))
			if err != nil {
				return err
			}
			emitSent(result)
		}
	case "async":
		return produceAsync(ctx, p, o)
	case "oneway":
		for i := 0; i < o.count; i++ {
			if err = p.SendOneWay(ctx, message(o, i)); err != nil {
				return err
			}
		}
		emit("oneway", map[string]string{"count": strconv.Itoa(o.count)})
	case "batch":
		var batch []*primitive.Message
		for i := 0; i < o.count; i++ {
			batch = append(batch, message(o, i))
		}
		result, err := p.SendSync(ctx, batch...)
		if err != nil {
			return err
		}
		emitSent(result)
	default:
		return fmt.Errorf("no such mode: %s", o.mode)
	}
	return nil
}

func produceAsync(ctx context.Context, p rocketmq.Producer, o options) error {
	var answered sync.WaitGroup
	for i := 0; i < o.count; i++ {
		answered.Add(1)
		err := p.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
			if err != nil {
				emit("error", map[string]string{"message": err.Error()})
			} else {
				emitSent(result)
			}
			answered.Done()
		}, message(o, i))
		if err != nil {
			return err
		}
	}
	answered.Wait()
	return nil
}

func consume(o options) error {
	chosen := []consumer.Option{
		consumer.WithGroupName(o.group),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.namesrv})),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(int32(o.maxReconsume)),
		consumer.WithInstance(fmt.Sprintf("%s-%d", o.group, os.Getpid())),
	}
	if o.accessKey != "" {
		chosen = append(chosen, consumer.WithCredentials(primitive.Credentials{
			AccessKey: o.accessKey, SecretKey: o.secretKey}))
	}
	c, err := rocketmq.NewPushConsumer(chosen...)
	if err != nil {
		return err
	}
	expression := o.tags
	if expression == "" {
		expression = "*"
	}
	err = c.Subscribe(o.topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			result := consumer.ConsumeSuccess
			for _, m := range messages {
				emitMessage(m)
				if o.failPrefix != "" && strings.HasPrefix(string(m.Body), o.failPrefix) {
					result = consumer.ConsumeRetryLater
				}
			}
			return result, nil
		})
	if err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	emit("started", nil)
	if _, err = io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err = c.Shutdown(); err != nil {
		return err
	}
	emit("stopped", nil)
	return nil
}

func emitMessage(m *primitive.MessageExt) {
	emit("message", map[string]string{"body": string(m.Body), "topic": m.Topic, "tags": m.GetTags(),
		"keys": m.GetKeys(), "msgId": m.MsgId, "queueId": strconv.Itoa(m.Queue.QueueId),
		"queueOffset":    strconv.FormatInt(m.QueueOffset, 10),
		"reconsumeTimes": strconv.Itoa(int(m.ReconsumeTimes))})
}
