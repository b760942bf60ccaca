//! Drives crates.io's `rocketmq`, the official RocketMQ 5 client for Rust; each event is one line of JSON.
//!
//! The first argument names the deed (produce, receive), pairs of `--name value` follow. What receives or has
//! transactions goes on until standard input ends. This client has no push consumer, cannot change the invisible time
//! of a message and cannot recall one.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

type Options = HashMap<String, String>;
type Done = Result<(), Box<dyn Error>>;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn say(event: &str, mut values: Value) {
    values["event"] = json!(event);
    values["at"] = json!(now_ms());
    println!("{values}");
}

fn client_option(options: &Options) -> ClientOption {
    let mut made = ClientOption::default();
    made.set_access_url(options["endpoint"].clone());
    made.set_enable_tls(options.get("tls").is_some_and(|value| value == "1"));
    made.set_timeout(Duration::from_secs(10));
    made.set_long_polling_timeout(Duration::from_secs(10)); // the proxy wants 5 s and a margin
    if let Some(key) = options.get("access-key") {
        made.set_access_key(key.clone());
        made.set_secret_key(options["secret-key"].clone());
    }
    made
}

async fn produce(options: &Options, ended: &AtomicBool) -> Done {
    let mut option = ProducerOption::default();
    option.set_topics(vec![options["topic"].clone()]);
    let kind = options["kind"].as_str();
    let mut producer = if kind == "transaction" {
        Producer::new_transaction_producer(
            option,
            client_option(options),
            Box::new(|_, asked| {
                say("checked", json!({"body": String::from_utf8_lossy(asked.body())}));
                TransactionResolution::COMMIT
            }),
        )?
    } else {
        Producer::new(option, client_option(options))?
    };
    producer.start().await?;
    say("started", json!({}));
    let ends: Vec<&str> = options.get("ends").map_or(vec![], |ends| ends.split(',').collect());
    for index in 0..options["count"].parse::<usize>()? {
        let body = format!("{}-{}", options["prefix"], index);
        let mut builder = MessageBuilder::builder()
            .set_topic(options["topic"].clone())
            .set_body(body.clone().into_bytes())
            .set_properties(HashMap::from([("index", index.to_string())]));
        if let Some(tags) = options.get("tags") {
            let tags: Vec<&str> = tags.split(',').collect();
            builder = builder.set_tag(tags[index % tags.len()]);
        }
        let mut due = 0;
        match kind {
            "fifo" => {
                let groups: Vec<&str> = options["message-groups"].split(',').collect();
                builder = builder.set_message_group(groups[index % groups.len()]);
            }
            "delay" => {
                // This client counts in whole seconds.
                due = (now_ms() + options["delay-ms"].parse::<i64>()?) / 1000 * 1000;
                builder = builder.set_delivery_timestamp(due / 1000);
            }
            "transaction" => builder = builder.enable_transaction(),
            _ => {}
        }
        if kind == "transaction" {
            let transaction = producer.send_transaction_message(builder.build()?).await?;
            say("sent", json!({"body": body, "id": transaction.message_id(), "due": due}));
            match ends[index] {
                "commit" => transaction.commit().await?,
                "rollback" => transaction.rollback().await?,
                _ => {}
            }
        } else {
            let receipt = producer.send(builder.build()?).await?;
            say("sent", json!({"body": body, "id": receipt.message_id(), "due": due}));
        }
    }
    while kind == "transaction" && !ended.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    producer.shutdown().await?;
    Ok(())
}

async fn receive(options: &Options, ended: &AtomicBool) -> Done {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![options["topic"].clone()]);
    option.set_consumer_group(options["group"].clone());
    let mut consumer = SimpleConsumer::new(option, client_option(options))?;
    consumer.start().await?;
    say("started", json!({}));
    let expression = match options.get("sql") {
        Some(sql) => FilterExpression::new(FilterType::Sql, sql.clone()),
        None => FilterExpression::new(FilterType::Tag, options.get("tag").map_or("*", String::as_str)),
    };
    let invisible = options.get("invisible-ms").map_or(Ok(30_000), |value| value.parse())?;
    while !ended.load(Ordering::Relaxed) {
        let received = consumer
            .receive_with(options["topic"].clone(), &expression, 16, Duration::from_millis(invisible))
            .await?;
        for got in received {
            let body = String::from_utf8_lossy(got.body()).into_owned();
            say("message", json!({"body": body, "id": got.message_id(), "tag": got.tag(),
                "group": got.message_group(), "attempt": got.delivery_attempt()}));
            consumer.ack(&got).await?;
            say("acked", json!({"body": body}));
        }
    }
    consumer.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    let options: Options =
        words[2..].chunks(2).map(|pair| (pair[0][2..].to_string(), pair[1].clone())).collect();
    let ended = Arc::new(AtomicBool::new(false));
    let at_end = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        at_end.store(true, Ordering::Relaxed);
    });
    let done = match words[1].as_str() {
        "produce" => produce(&options, &ended).await,
        "receive" => receive(&options, &ended).await,
        deed => Err(format!("this client has no {deed}").into()),
    };
    if let Err(problem) = done {
        say("error", json!({"message": problem.to_string()}));
        std::process::exit(1);
    }
}
