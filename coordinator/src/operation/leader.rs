//! Who leads.

use crate::context::Context;
use tidegate_proto::wire::v1::LeaderReply;

/// Reports which coordinator leads, and up to which revision this one sees.
pub fn leader(context: &Context) -> LeaderReply {
    let trouble = context.trouble();
    let view = context.mirror.view();
    let leader = view.leader.as_ref();
    LeaderReply {
        address: leader.map(|leader| leader.address.clone()).unwrap_or_default(),
        term: leader.map(|leader| leader.term.to_string()).unwrap_or_default(),
        here: context.led_here().is_some(),
        revision: view.fleet.revision().0,
        trouble,
    }
}
