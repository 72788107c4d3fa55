//! Messages of the operators' API: generated from `proto/tidegate/v1/{operator,releases,metadata}.proto`. Here are only the few
//! translations of a record into its message that both sides of the border need.

use crate::record::event::Event;
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

impl From<WaitingFor> for v1::Reason {
    fn from(reason: WaitingFor) -> Self {
        let WaitingFor { kind, blocked_on, owner, next_step, timeout, since } = reason;
        Self { kind, blocked_on, owner, next_step, timeout, since: since.map(|since| since.0) }
    }
}
