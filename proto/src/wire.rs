//! Messages of the operators' API: generated from `proto/tidegate/v1/{operator,releases,metadata}.proto`. Here are only the few
//! translations of a record into its message that both sides of the border need.

use crate::record::event::Event;
use crate::record::evidence::{Earlier, Verdict};
use crate::record::waiting::WaitingFor;

#[expect(missing_docs, reason = "generated; each is described in the .proto file")]
pub mod v1 {
    tonic::include_proto!("tidegate.v1");
}

include!(concat!(env!("OUT_DIR"), "/rpcs.rs"));

impl From<Event> for v1::Event {
    fn from(event: Event) -> Self {
        let Event { from, to, because, who, at } = event;
        Self { from, to, because, who, at: at.0 }
    }
}

impl From<Earlier> for v1::EarlierVerdict {
    fn from(earlier: Earlier) -> Self {
        let Earlier { verdict, sha256, note, who, at } = earlier;
        let sha256 = sha256.map(|sha256| sha256.to_string());
        Self { verdict: verdict.to_string(), note, who, at: at.0, sha256 }
    }
}

/// How many earlier verdicts of each kind there are, for a cell of a table: `2 fail, 1 pass`; empty where there is none.
pub fn counted(earlier: &[v1::EarlierVerdict]) -> String {
    let words = [Verdict::Fail, Verdict::Inconclusive, Verdict::Pass].map(Verdict::word);
    let count = |word| (word, earlier.iter().filter(|one| one.verdict == word).count());
    let found = words.into_iter().map(count).filter(|(_, count)| *count > 0);
    found.map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

impl From<WaitingFor> for v1::Reason {
    fn from(reason: WaitingFor) -> Self {
        let WaitingFor { kind, blocked_on, owner, next_step, timeout, since } = reason;
        Self { kind, blocked_on, owner, next_step, timeout, since: since.map(|since| since.0) }
    }
}
