//! Writes to a store in a directory until it is killed, and says of each write when it is acknowledged:
//! `writers DIR ROUND` prints `ack KEY REVISION`, a line each. The tests of durability start it, and kill it.

#![expect(clippy::unwrap_used, reason = "the program that starts it reads what it prints")]

use etcd_client::{DeleteOptions, Txn, TxnOp};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;

/// Who started it has killed it long before, or will not.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(dir), Some(round), None) = (words.next(), words.next(), words.next()) else {
        eprintln!("usage: writers DIR ROUND");
        std::process::exit(2);
    };
    let store = Embedded::open(Path::new(&dir), "to be killed").await.unwrap();
    let writers: Vec<_> =
        (0..8).map(|writer| tokio::spawn(write(store.clone(), format!("{round}/{writer}")))).collect();
    for writer in writers {
        tokio::time::timeout(LIMIT, writer).await.expect("killed long before").unwrap();
    }
}

/// Pairs of keys, each in one transaction, with compactions in between.
async fn write(store: Embedded, name: String) {
    let mut client = store.client().await.unwrap();
    for number in 0.. {
        let (key, pair) = (format!("first/{name}/{number}"), format!("second/{name}/{number}"));
        let txn = Txn::new().and_then([TxnOp::put(key.clone(), "1", None), TxnOp::put(pair, "2", None)]);
        let revision = client.txn(txn).await.unwrap().header().unwrap().revision();
        // One write of a whole line: a kill cannot cut it in two.
        let line = format!("ack {key} {revision}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
        if number % 20 == 19 {
            // Another writer may have compacted further meanwhile.
            let _ = client.compact(revision - 10, None).await;
            client.delete("nothing", Some(DeleteOptions::new())).await.unwrap();
        }
    }
}
