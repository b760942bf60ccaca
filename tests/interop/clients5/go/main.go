// Drives the official RocketMQ 5 client for Go; each event is one line of JSON.
//
// The first argument names the deed (produce, receive, push), pairs of `--name value` follow. What receives, pushes or
// has transactions goes on until standard input ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

var (
	options = map[string]string{}
	output  sync.Mutex
	ended   = make(chan struct{})
)

type fields map[string]any

func say(event string, values fields) {
	output.Lock()
	defer output.Unlock()
	line := fields{"event": event, "at": time.Now().UnixMilli()}
	for name, value := range values {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func sayMessage(got *rmq.MessageView) {
	say("message", fields{"body": string(got.GetBody()), "id": got.GetMessageId(), "tag": got.GetTag(),
		"group": got.GetMessageGroup(), "attempt": got.GetDeliveryAttempt()})
}

func number(name string, fallback int) int {
	if value, err := strconv.Atoi(options[name]); err == nil {
		return value
	}
	return fallback
}

func milliseconds(name string, fallback int) time.Duration {
	return time.Duration(number(name, fallback)) * time.Millisecond
}

func config() *rmq.Config {
	return &rmq.Config{Endpoint: options["endpoint"], ConsumerGroup: options["group"],
		Credentials: &credentials.SessionCredentials{AccessKey: options["access-key"], AccessSecret: options["secret-key"]}}
}

func subscriptions() map[string]*rmq.FilterExpression {
	expression := rmq.SUB_ALL
	if options["sql"] != "" {
		expression = rmq.NewFilterExpressionWithType(options["sql"], rmq.SQL92)
	} else if options["tag"] != "" {
		expression = rmq.NewFilterExpression(options["tag"])
	}
	return map[string]*rmq.FilterExpression{options["topic"]: expression}
}

func message(index int) (*rmq.Message, int64) {
	made := &rmq.Message{Topic: options["topic"], Body: []byte(fmt.Sprintf("%s-%d", options["prefix"], index))}
	made.AddProperty("index", strconv.Itoa(index))
	if options["tags"] != "" {
		tags := strings.Split(options["tags"], ",")
		made.SetTag(tags[index%len(tags)])
	}
	var due int64
	switch options["kind"] {
	case "fifo":
		groups := strings.Split(options["message-groups"], ",")
		made.SetMessageGroup(groups[index%len(groups)])
	case "delay":
		at := time.Now().Add(milliseconds("delay-ms", 0))
		made.SetDelayTimestamp(at)
		due = at.UnixMilli()
	}
	return made, due
}

func produce() error {
	checker := &rmq.TransactionChecker{Check: func(asked *rmq.MessageView) rmq.TransactionResolution {
		say("checked", fields{"body": string(asked.GetBody())})
		return rmq.COMMIT
	}}
	producer, err := rmq.NewProducer(config(), rmq.WithTopics(options["topic"]), rmq.WithTransactionChecker(checker))
	if err != nil {
		return err
	}
	if err = producer.Start(); err != nil {
		return err
	}
	say("started", nil)
	ends := strings.Split(options["ends"], ",")
	for index := 0; index < number("count", 0); index++ {
		made, due := message(index)
		var receipts []*rmq.SendReceipt
		var transaction rmq.Transaction
		if options["kind"] == "transaction" {
			transaction = producer.BeginTransaction()
			receipts, err = producer.SendWithTransaction(context.Background(), made, transaction)
		} else {
			receipts, err = producer.Send(context.Background(), made)
		}
		if err != nil {
			return err
		}
		say("sent", fields{"body": string(made.Body), "id": receipts[0].MessageID, "due": due})
		if options["recall"] == "1" {
			if _, err = producer.Recall(context.Background(), options["topic"], receipts[0].RecallHandle); err != nil {
				return err
			}
			say("recalled", fields{"body": string(made.Body)})
		}
		if transaction != nil {
			switch ends[index] {
			case "commit":
				err = transaction.Commit()
			case "rollback":
				err = transaction.RollBack()
			}
			if err != nil {
				return err
			}
		}
	}
	if options["kind"] == "transaction" {
		<-ended
	}
	return producer.GracefulStop()
}

func receive() error {
	consumer, err := rmq.NewSimpleConsumer(config(), rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(subscriptions()))
	if err != nil {
		return err
	}
	if err = consumer.Start(); err != nil {
		return err
	}
	say("started", nil)
	for {
		select {
		case <-ended:
			return consumer.GracefulStop()
		default:
		}
		views, err := consumer.Receive(context.Background(), 16, milliseconds("invisible-ms", 30000))
		var status *rmq.ErrRpcStatus
		if errors.As(err, &status) && status.Code == int32(v2.Code_MESSAGE_NOT_FOUND) {
			continue // this client calls it an error that there was nothing
		}
		if err != nil {
			return err
		}
		for _, got := range views {
			sayMessage(got)
			body := string(got.GetBody())
			if options["change-ms"] != "" && got.GetDeliveryAttempt() == 1 {
				if err := consumer.ChangeInvisibleDuration(got, milliseconds("change-ms", 0)); err != nil {
					return err
				}
				say("changed", fields{"body": body})
			} else {
				if err := consumer.Ack(context.Background(), got); err != nil {
					return err
				}
				say("acked", fields{"body": body})
			}
		}
	}
}

func push() error {
	fail := number("fail", 0) // attempts of a message that fail; -1 fails them all
	listener := &rmq.FuncMessageListener{Consume: func(got *rmq.MessageView) rmq.ConsumerResult {
		sayMessage(got)
		if fail < 0 || int(got.GetDeliveryAttempt()) <= fail {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}}
	consumer, err := rmq.NewPushConsumer(config(), rmq.WithPushSubscriptionExpressions(subscriptions()),
		rmq.WithPushMessageListener(listener))
	if err != nil {
		return err
	}
	if err = consumer.Start(); err != nil {
		return err
	}
	say("started", nil)
	<-ended
	return consumer.GracefulStop()
}

func main() {
	for i := 2; i+1 < len(os.Args); i += 2 {
		options[strings.TrimPrefix(os.Args[i], "--")] = os.Args[i+1]
	}
	os.Setenv("user.home", os.Getenv("HOME"))
	rmq.ResetLogger()
	rmq.EnableSsl = options["tls"] == "1"
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	deeds := map[string]func() error{"produce": produce, "receive": receive, "push": push}
	if err := deeds[os.Args[1]](); err != nil {
		say("error", fields{"message": err.Error()})
		os.Exit(1)
	}
}
