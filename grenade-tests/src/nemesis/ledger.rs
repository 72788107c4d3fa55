//! The requests of one upgrade: each that failed must be explained by a fault of that time. An order explains none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::load::entry;

/// When requests may fail because of a fault, in milliseconds of the event log.
#[derive(Debug, Clone)]
pub(super) struct Excuse {
    /// The fault.
    pub what: String,
    /// The node that it happens to: it explains no failure that another node answered.
    pub node: Option<String>,
    /// Its begin.
    pub from: u64,
    /// Its end, and the time that the service needs to be itself again; none while it lasts.
    pub to: Option<u64>,
}

/// What is known of the requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// How many there were.
    pub sent: usize,
    /// How many there were at times when no fault would have explained a failure.
    pub strict: usize,
    /// How many failed, by the fault that explains them.
    pub explained: BTreeMap<String, usize>,
    /// How many this program did not send in time: the machine was busy.
    pub not_sent: usize,
    /// Those that failed and are not explained.
    pub unexplained: Vec<String>,
    /// The numbers of the images that were created and acknowledged.
    pub created: BTreeSet<u64>,
}

/// Reads the ledger of a load that began at `began` in the event log, in milliseconds. Each excuse begins at a
/// whole millisecond, rounded down: so a fault may explain a request that failed within its millisecond.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read(path: &Path, began: f64, excuses: &[Excuse]) -> anyhow::Result<Requests> {
    let entries = entry::read(path)?;
    let mut requests = Requests::default();
    for request in &entries {
        let scheduled = (request.scheduled_ms + began).floor() as u64;
        let done = (request.done_ms + began).ceil() as u64;
        requests.sent += 1;
        requests.strict += usize::from(!excuses.iter().any(|excuse| excuse.covers(scheduled, done)));
        if request.is_ok() {
            if request.kind == "create" {
                requests.created.insert(request.seq);
            }
            continue;
        }
        // What is wrong in an answer was lost or was never true: no fault explains that.
        let is_wrong = request.reason.contains("wrong content");
        let mut excuses = excuses.iter().filter(|excuse| excuse.covers(scheduled, done));
        let excuse = excuses.find(|excuse| !is_wrong && excuse.is_about(&request.node));
        match excuse {
            _ if !request.is_sent() => requests.not_sent += 1,
            Some(excuse) => *requests.explained.entry(excuse.what.clone()).or_default() += 1,
            None => requests.unexplained.push(format!("{scheduled} to {done} ms: {request:?}")),
        }
    }
    Ok(requests)
}

impl Excuse {
    /// Whether it may have happened to the node that answered; where none did, it may.
    fn is_about(&self, answered: &str) -> bool {
        answered.is_empty() || self.node.as_ref().is_none_or(|node| node == answered)
    }

    fn covers(&self, from: u64, to: u64) -> bool {
        from <= self.to.unwrap_or(u64::MAX) && to >= self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(line: &str, excuses: &[Excuse]) -> Requests {
        let file = tempfile::NamedTempFile::new().unwrap();
        let header = "seq,scheduled_ms,sent_ms,first_ms,done_ms,own_ms,kind,status,outcome,node,version,written_by,\
                      bytes,connection,reason";
        std::fs::write(file.path(), format!("{header}\n{line}\n")).unwrap();
        read(file.path(), 1000.0, excuses).unwrap()
    }

    fn excuse(from: u64, to: u64) -> Excuse {
        Excuse { what: "ServiceKilled".to_owned(), node: Some("node-1".to_owned()), from, to: Some(to) }
    }

    #[test]
    fn failure_without_a_fault_at_its_time_is_unexplained() {
        let line = "7,500.0,500.1,600.0,600.0,0,read,503,failed,node-1,1,,0,fresh,status 503: nobody";
        assert_eq!(judged(line, &[]).unexplained.len(), 1);
        assert_eq!(judged(line, &[excuse(0, 1400)]).unexplained.len(), 1);
        assert_eq!(judged(line, &[excuse(1700, 1800)]).unexplained.len(), 1);
        let explained = judged(line, &[excuse(1550, 1560)]);
        assert_eq!((explained.unexplained.len(), explained.explained.values().sum()), (0, 1));
    }

    #[test]
    fn failure_that_another_node_answered_is_unexplained() {
        let line = |node: &str| {
            format!("7,500.0,500.1,600.0,600.0,0,read,500,failed,{node},1,,0,fresh,status 500: no")
        };
        for (node, unexplained) in [("node-1", 0), ("", 0), ("node-2", 1)] {
            assert_eq!(judged(&line(node), &[excuse(0, 9000)]).unexplained.len(), unexplained, "{node:?}");
        }
    }

    #[test]
    fn wrong_content_is_explained_by_no_fault() {
        let line =
            "7,500.0,500.1,600.0,600.0,0,read,200,failed,node-1,1,,9,fresh,wrong content: image 1: name is 2";
        assert_eq!(judged(line, &[excuse(0, 9000)]).unexplained.len(), 1);
    }

    #[test]
    fn acknowledged_creates_are_kept_by_number() {
        let line = "7,500.0,500.1,600.0,600.0,0,create,201,ok,node-1,1,,9,fresh,";
        assert_eq!(judged(line, &[]).created, [7].into());
    }
}
