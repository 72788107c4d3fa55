//! One of the two stores: carries an operation out and returns its answer as text, revisions counted from the start of
//! the case.

use std::{collections::HashSet, time::Duration};

use etcd_client::{
    Client, CompareOp, DeleteOptions, Error, EventType, GetOptions, GetResponse, KeyValue, LeaseGrantOptions,
    LeaseTimeToLiveOptions, PutOptions, ResponseHeader, Txn, TxnOp, TxnOpResponse, TxnResponse,
    WatchFilterType, WatchOptions, WatchStream,
};

use super::operation::{self, Get, Operation, Put, Range, Step, Watch};

/// How long an event that must come may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Seconds; long enough that no lease lapses within a case.
const TTL: i64 = 3600;

struct Open {
    stream: WatchStream,
    asked: Watch,
    /// The last revision that something was read of.
    read: i64,
    ended: bool,
}

pub(super) struct Side {
    client: Client,
    /// The revision at which the case began.
    base: i64,
    /// The present, and the compacted revision, counted from there.
    now: i64,
    compacted: i64,
    watches: Vec<Open>,
    /// Revisions that draining made; when a watch reports them is chance.
    drained: HashSet<i64>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(error: Error) -> String {
    match error {
        Error::GRpcStatus(status) => format!("{:?} {}", status.code(), status.message()),
        other => panic!("expected an answer of the server, got {other}"),
    }
}

impl Side {
    /// Empties a store and begins a case there.
    pub(super) async fn fresh(mut client: Client) -> Self {
        for lease in client.leases().await.unwrap().leases() {
            client.lease_revoke(lease.id()).await.unwrap();
        }
        let all = DeleteOptions::new().with_all_keys();
        let base = client.delete("", Some(all)).await.unwrap().header().unwrap().revision();
        // It was compacted there already if the case before did nothing.
        let _ = client.compact(base, None).await;
        Self { client, base, now: 0, compacted: 0, watches: Vec::new(), drained: HashSet::new() }
    }

    /// Goes on with the same store, opened again.
    pub(super) fn reconnect(&mut self, client: Client) {
        self.client = client;
    }

    /// A revision of the store as the case counts it; 0, which means none, stays.
    fn relative(&self, revision: i64) -> i64 {
        if revision == 0 { 0 } else { revision - self.base }
    }

    /// A draw as a revision from the start of the case to one above the present.
    fn around(&self, draw: u8) -> i64 {
        self.base + i64::from(draw) % (self.now + 2)
    }

    fn header(&self, header: Option<&ResponseHeader>) -> String {
        format!("@{}", self.relative(header.map_or(0, ResponseHeader::revision)))
    }

    fn kv(&self, kv: &KeyValue) -> String {
        let (created, modified) = (self.relative(kv.create_revision()), self.relative(kv.mod_revision()));
        format!(
            "{}={} c{created} m{modified} v{} l{}",
            text(kv.key()),
            text(kv.value()),
            kv.version(),
            kv.lease()
        )
    }

    fn kvs(&self, kvs: &[KeyValue]) -> String {
        kvs.iter().map(|kv| self.kv(kv)).collect::<Vec<_>>().join(", ")
    }

    pub(super) async fn carry_out(&mut self, operation: &Operation) -> String {
        let reported = match operation {
            Operation::Step(step) => self.step(step).await,
            Operation::Compact(draw) => self.compact(*draw).await,
            Operation::Grant(id) => self.grant(*id).await,
            Operation::Revoke(id) => self.client.lease_revoke(*id).await.map(|a| self.header(a.header())),
            Operation::TimeToLive(id) => self.time_to_live(*id).await,
            Operation::Leases => self.leases().await,
            Operation::Watch(asked) => return self.watch(asked).await,
            Operation::Drain => return self.drain().await,
            Operation::Restart => {
                let reported = self.drain().await;
                self.watches.clear();
                Ok(reported)
            }
        };
        let present = self.client.get("present", None).await.unwrap();
        self.now = self.relative(present.header().unwrap().revision());
        format!("{} now {}", reported.unwrap_or_else(refused), self.now)
    }

    async fn step(&mut self, step: &Step) -> Result<String, Error> {
        Ok(match step {
            Step::Put(put) => {
                let answer = self.client.put(put.key, value(put), Some(put_options(put))).await?;
                let before = answer.prev_key().map(|kv| self.kv(kv));
                format!("put {} {before:?}", self.header(answer.header()))
            }
            Step::Get(get) => {
                let answer = self.client.get(get.range.key, Some(self.get_options(get))).await?;
                self.got(&answer)
            }
            Step::Delete(range, prev) => {
                let answer = self.client.delete(range.key, Some(delete_options(range, *prev))).await?;
                self.deleted(&answer)
            }
            Step::Txn(txn) => {
                let txn = self.txn(txn);
                let answer = self.client.txn(txn).await?;
                self.done(&answer)
            }
        })
    }

    fn got(&self, answer: &GetResponse) -> String {
        let (header, kvs) = (self.header(answer.header()), self.kvs(answer.kvs()));
        format!("get {header} {} of {} [{kvs}]", answer.more(), answer.count())
    }

    fn deleted(&self, answer: &etcd_client::DeleteResponse) -> String {
        let (header, kvs) = (self.header(answer.header()), self.kvs(answer.prev_kvs()));
        format!("delete {header} {} [{kvs}]", answer.deleted())
    }

    fn done(&self, answer: &TxnResponse) -> String {
        let each = answer.op_responses();
        let reported = each.iter().map(|response| match response {
            TxnOpResponse::Put(put) => {
                format!("put {} {:?}", self.header(put.header()), put.prev_key().map(|kv| self.kv(kv)))
            }
            TxnOpResponse::Get(get) => self.got(get),
            TxnOpResponse::Delete(delete) => self.deleted(delete),
            TxnOpResponse::Txn(txn) => self.done(txn),
        });
        let reported: Vec<String> = reported.collect();
        format!("txn {} {} ({})", self.header(answer.header()), answer.succeeded(), reported.join("; "))
    }

    fn get_options(&self, get: &Get) -> GetOptions {
        let mut options = GetOptions::new().with_range(get.range.end).with_limit(get.limit);
        if let Some(draw) = get.revision {
            options = options.with_revision(self.around(draw));
        }
        if let Some((target, order)) = get.sort {
            options = options.with_sort(target, order);
        }
        if get.keys_only {
            options = options.with_keys_only();
        }
        if get.count_only {
            options = options.with_count_only();
        }
        if let Some(draw) = get.min_mod {
            options = options.with_min_mod_revision(self.around(draw));
        }
        if let Some(draw) = get.max_create {
            options = options.with_max_create_revision(self.around(draw));
        }
        options
    }

    fn compare(&self, compare: &operation::Compare) -> etcd_client::Compare {
        let is =
            [CompareOp::Equal, CompareOp::Greater, CompareOp::Less, CompareOp::NotEqual][compare.is as usize];
        let (key, small) = (compare.range.key, i64::from(compare.operand % 4));
        // Zero, which is what a missing key has, now and then.
        let revision = if compare.operand.is_multiple_of(5) { 0 } else { self.around(compare.operand) };
        let made = match compare.target {
            0 => etcd_client::Compare::version(key, is, small),
            1 => etcd_client::Compare::create_revision(key, is, revision),
            2 => etcd_client::Compare::mod_revision(key, is, revision),
            3 => etcd_client::Compare::value(key, is, small.to_string()),
            _ => etcd_client::Compare::lease(key, is, small),
        };
        if compare.range.end.is_empty() { made } else { made.with_range(compare.range.end) }
    }

    fn txn(&self, txn: &operation::Txn) -> Txn {
        let steps = |steps: &[Step]| -> Vec<TxnOp> {
            let op = |step: &Step| match step {
                Step::Put(put) => TxnOp::put(put.key, value(put), Some(put_options(put))),
                Step::Get(get) => TxnOp::get(get.range.key, Some(self.get_options(get))),
                Step::Delete(range, prev) => TxnOp::delete(range.key, Some(delete_options(range, *prev))),
                Step::Txn(nested) => TxnOp::txn(self.txn(nested)),
            };
            steps.iter().map(op).collect()
        };
        let compares: Vec<_> = txn.compares.iter().map(|compare| self.compare(compare)).collect();
        let mut made = Txn::new();
        if !compares.is_empty() {
            made = made.when(compares);
        }
        if !txn.then.is_empty() {
            made = made.and_then(steps(&txn.then));
        }
        if !txn.otherwise.is_empty() {
            made = made.or_else(steps(&txn.otherwise));
        }
        made
    }

    /// Every watch is brought up to the present first: etcd ends, by chance, one that lags behind a compaction.
    async fn compact(&mut self, draw: u8) -> Result<String, Error> {
        let reported = self.drain().await;
        let revision = self.around(draw);
        self.client.compact(revision, None).await?;
        self.compacted = self.relative(revision);
        Ok(format!("compacted {} after {reported}", self.compacted))
    }

    async fn grant(&mut self, id: i64) -> Result<String, Error> {
        let answer = self.client.lease_grant(TTL, Some(LeaseGrantOptions::new().with_id(id))).await?;
        Ok(format!("granted {} {} {}", self.header(answer.header()), answer.id(), answer.ttl()))
    }

    async fn time_to_live(&mut self, id: i64) -> Result<String, Error> {
        let options = Some(LeaseTimeToLiveOptions::new().with_keys());
        let answer = self.client.lease_time_to_live(id, options).await?;
        let mut keys: Vec<String> = answer.keys().iter().map(|key| text(key)).collect();
        keys.sort();
        let lives = answer.ttl() > 0;
        Ok(format!(
            "lease {} {lives} {} {keys:?} {}",
            answer.id(),
            answer.granted_ttl(),
            self.header(answer.header())
        ))
    }

    async fn leases(&mut self) -> Result<String, Error> {
        let answer = self.client.leases().await?;
        let mut ids: Vec<i64> = answer.leases().iter().map(etcd_client::LeaseStatus::id).collect();
        ids.sort_unstable();
        Ok(format!("leases {ids:?} {}", self.header(answer.header())))
    }

    async fn watch(&mut self, asked: &Watch) -> String {
        let mut options = WatchOptions::new().with_range(asked.range.end);
        if let Some(draw) = asked.start {
            let start = self.around(draw);
            // At the compacted revision itself etcd 3.4 may or may not still have the deletes.
            let start = if self.relative(start) == self.compacted { start + 1 } else { start };
            options = options.with_start_revision(start);
        }
        if asked.prev {
            options = options.with_prev_key();
        }
        match (asked.puts, asked.deletes) {
            (false, _) => options = options.with_filters([WatchFilterType::NoPut]),
            (_, false) => options = options.with_filters([WatchFilterType::NoDelete]),
            _ => {}
        }
        let mut stream = self.client.watch(asked.range.key, Some(options)).await.unwrap();
        let created = stream.message().await.unwrap().expect("a watch is answered");
        let reported = format!(
            "watch {} {} {} {:?} {}",
            created.created(),
            created.canceled(),
            created.watch_id(),
            created.cancel_reason(),
            self.header(created.header()),
        );
        if !created.canceled() {
            self.watches.push(Open { stream, asked: asked.clone(), read: 0, ended: false });
        }
        reported
    }

    /// Puts and deletes a key of each watch, and reads each up to that point.
    async fn drain(&mut self) -> String {
        let mut watches = std::mem::take(&mut self.watches);
        let mut until = Vec::new();
        for open in &watches {
            // An empty key means the first one that can be. Twice, for a watch may start a revision ahead.
            let key = if open.asked.range.key.is_empty() { "\0" } else { open.asked.range.key };
            let (mut put, mut delete) = (0, 0);
            for _ in 0..2 {
                put = self.client.put(key, "drain", None).await.unwrap().header().unwrap().revision();
                delete = self.client.delete(key, None).await.unwrap().header().unwrap().revision();
                self.drained.extend([put, delete]);
            }
            until.push(if open.asked.deletes { delete } else { put });
        }
        let mut reported = Vec::new();
        for (open, until) in watches.iter_mut().zip(until) {
            reported.push(self.read(open, until).await);
        }
        watches.retain(|open| !open.ended);
        self.watches = watches;
        format!("drained {reported:?}")
    }

    /// Everything that a watch reports up to a revision.
    async fn read(&self, open: &mut Open, until: i64) -> String {
        let mut reported = Vec::new();
        while open.read < until && !open.ended {
            let message = tokio::time::timeout(LIMIT, open.stream.message()).await;
            let message = message.unwrap_or_else(|_| {
                panic!("the watch {:?} got no further event after {reported:?}", open.asked)
            });
            let message = message.unwrap().expect("the stream goes on");
            if message.canceled() {
                open.ended = true;
                reported.push(format!(
                    "ended {} {:?}",
                    self.relative(message.compact_revision()),
                    message.cancel_reason()
                ));
            }
            let before = open.read;
            for event in message.events() {
                let kv = event.kv().expect("an event has a key");
                assert!(kv.mod_revision() > before, "a revision was spread over two messages");
                open.read = kv.mod_revision();
                let kind = if event.event_type() == EventType::Put { '+' } else { '-' };
                if !self.drained.contains(&open.read) {
                    reported.push(format!(
                        "{kind}{} {:?}",
                        self.kv(kv),
                        event.prev_kv().map(|kv| self.kv(kv))
                    ));
                }
            }
        }
        reported.join(", ")
    }
}

fn value(put: &Put) -> String {
    if put.value == 0 { String::new() } else { put.value.to_string() }
}

fn put_options(put: &Put) -> PutOptions {
    let mut options = PutOptions::new().with_lease(put.lease);
    if put.prev {
        options = options.with_prev_key();
    }
    if put.keep_value {
        options = options.with_ignore_value();
    }
    if put.keep_lease {
        options = options.with_ignore_lease();
    }
    options
}

fn delete_options(range: &Range, prev: bool) -> DeleteOptions {
    let options = DeleteOptions::new().with_range(range.end);
    if prev { options.with_prev_key() } else { options }
}
